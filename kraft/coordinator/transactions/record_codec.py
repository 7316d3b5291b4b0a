"""Encodes and decodes records of `__transaction_state` as Kafka 4.3 does."""

from __future__ import annotations

from typing import Final

from kraft.coordinator import numbered_message
from kraft.coordinator.transactions.records import (
    InvalidTransactionRecord,
    TransactionLogKey,
    TransactionLogValue,
    TransactionRecord,
    UnknownTransactionRecord,
)
from kraft.coordinator.transactions.transaction import RECORDED_STATES
from kraft.wire.errors import ProtocolError

_KEY_VERSION: Final = 0


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return key and value."""
    key = numbered_message.encode(TransactionLogKey.message_key, record.key, _KEY_VERSION)
    return key, None if record.value is None else numbered_message.encode(record.version, record.value, record.version)


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord | UnknownTransactionRecord:
    """Return the record, in memory in proportion to its bytes. As in Kafka, bytes after the last field are ignored.

    Raises InvalidTransactionRecord and nothing else, also for a value that no coordinator writes.
    """
    decoded = read(key, value)
    if isinstance(decoded, TransactionRecord) and decoded.value is not None:
        _check(decoded.value)
    return decoded


def read(key: bytes | None, value: bytes | None) -> TransactionRecord | UnknownTransactionRecord:
    """Return the record, also one whose value no coordinator writes. Raises InvalidTransactionRecord."""
    if key is None:
        raise InvalidTransactionRecord("a record of __transaction_state has no key")
    try:
        return _decoded(key, value)
    except ProtocolError as error:
        raise InvalidTransactionRecord(str(error)) from error


def _decoded(key: bytes, value: bytes | None) -> TransactionRecord | UnknownTransactionRecord:
    record_type = numbered_message.number_of(key)
    if record_type != TransactionLogKey.message_key:
        return UnknownTransactionRecord(record_type)
    decoded_key = numbered_message.decode(TransactionLogKey, _KEY_VERSION, key)
    assert isinstance(decoded_key, TransactionLogKey)
    if value is None:
        return TransactionRecord(decoded_key, None)
    version = numbered_message.number_of(value)
    if version not in TransactionLogValue.versions:
        return UnknownTransactionRecord(record_type, version)
    decoded_value = numbered_message.decode(TransactionLogValue, version, value)
    assert isinstance(decoded_value, TransactionLogValue)
    return TransactionRecord(decoded_key, decoded_value, version)


def _check(value: TransactionLogValue) -> None:
    if value.transaction_status not in RECORDED_STATES:
        raise InvalidTransactionRecord(f"a transaction cannot be recorded in state {value.transaction_status}")
    if value.producer_id < 0 or value.producer_epoch < 0:
        raise InvalidTransactionRecord(
            f"a transaction cannot have producer id {value.producer_id} and epoch {value.producer_epoch}"
        )
    if any(partition < 0 for topic in value.transaction_partitions or () for partition in topic.partition_ids):
        raise InvalidTransactionRecord("a transaction has a partition with a negative number")
