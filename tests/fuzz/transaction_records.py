"""Fuzz target: records of `__transaction_state`."""

from __future__ import annotations

from kraft.coordinator.transactions.record_codec import decode, encode
from kraft.coordinator.transactions.records import InvalidTransactionRecord, TransactionRecord
from kraft.coordinator.transactions.replicated import NO_TRANSACTIONS, replay
from tests.golden.transaction_records import RECORDS


def transaction_record(data: bytes) -> None:
    """Read a record, and replay it. The input is the length of the key (one byte), key and value."""
    key_end = 1 + int.from_bytes(data[:1], "big")
    try:
        decoded = decode(data[1:key_end], data[key_end:])
    except InvalidTransactionRecord:
        return
    if isinstance(decoded, TransactionRecord):
        assert decode(*encode(decoded)) == decoded
        replay(NO_TRANSACTIONS, decoded)


def transaction_records() -> tuple[bytes, ...]:
    encoded = [encode(record) for record in RECORDS.values()]
    return tuple(bytes([len(key)]) + key + (value or b"") for key, value in encoded)
