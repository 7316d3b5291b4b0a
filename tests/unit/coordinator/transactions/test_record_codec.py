"""Records of `__transaction_state` are written and read as Kafka does. Its bytes are in tests/golden."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator.transactions.record_codec import decode, encode
from kraft.coordinator.transactions.records import (
    InvalidTransactionRecord,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    TransactionRecord,
    UnknownTransactionRecord,
)
from kraft.coordinator.transactions.replicated import NO_TRANSACTIONS, replay
from kraft.coordinator.transactions.transaction import RECORDED_STATES, TransactionState
from tests.golden.make_transaction_records import FILE
from tests.golden.transaction_records import RECORDS
from tests.support.random_messages import random_message

KEY = TransactionLogKey(transactional_id="payments")


def golden_bytes() -> dict[str, tuple[bytes, bytes | None]]:
    lines = (line.split(" ") for line in FILE.read_text().splitlines())
    return {name: (bytes.fromhex(key), None if value == "null" else bytes.fromhex(value)) for name, key, value in lines}


BYTES = golden_bytes()


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_written_and_read_as_kafka_writes_it(name: str) -> None:
    record = RECORDS[name]
    assert encode(record) == BYTES[name]
    decoded = decode(*BYTES[name])
    assert isinstance(decoded, TransactionRecord)
    assert (decoded.key, decoded.value) == (record.key, record.value)


@pytest.mark.parametrize("name", RECORDS)
def test_bytes_after_the_last_field_are_ignored_as_in_kafka(name: str) -> None:
    key, value = BYTES[name]
    assert decode(key + b"rest", None if value is None else value + b"\xff") == decode(key, value)


def test_fields_that_a_newer_kafka_adds_are_skipped() -> None:
    key, value = BYTES["complete-abort-v1"]
    assert value is not None
    with_next_epoch = value.removesuffix(bytes.fromhex("01 02 02 0002")) + bytes.fromhex("02 02 02 0002 03 02 0007")
    assert decode(key, with_next_epoch) == decode(key, value)


@pytest.mark.parametrize("record_type", [1, 2, 0x7FFF, -1])
@pytest.mark.parametrize("value", [None, b"", b"\x00\x00"])
def test_a_record_of_another_type_is_unknown_whatever_its_bytes(record_type: int, value: bytes | None) -> None:
    assert decode(record_type.to_bytes(2, "big", signed=True), value) == UnknownTransactionRecord(record_type)


def test_a_value_of_a_newer_version_is_unknown_but_its_deletion_is_not() -> None:
    key, _ = BYTES["deletion"]
    assert decode(key, b"\x00\x02rest") == UnknownTransactionRecord(0, 2)
    assert decode(key, None) == RECORDS["deletion"]


@pytest.mark.parametrize("key", [None, b"", b"\x00"])
def test_a_record_without_a_type_is_invalid(key: bytes | None) -> None:
    with pytest.raises(InvalidTransactionRecord):
        decode(key, None)


@pytest.mark.parametrize("name", BYTES)
def test_a_record_that_is_cut_anywhere_is_invalid(name: str) -> None:
    key, value = BYTES[name]
    for length in range(len(key)):
        with pytest.raises(InvalidTransactionRecord):
            decode(key[:length], value)
    for length in range(len(value or b"")):
        with pytest.raises(InvalidTransactionRecord):
            decode(key, (value or b"")[:length])


@pytest.mark.parametrize(
    "wrong",
    [
        {"transaction_status": 6},
        {"transaction_status": 7},
        {"transaction_status": 8},
        {"transaction_status": -1},
        {"producer_id": -1},
        {"producer_epoch": -1},
        {"transaction_partitions": (PartitionsSchema(topic="orders", partition_ids=(0, -1)),)},
    ],
)
def test_what_no_coordinator_writes_is_invalid(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidTransactionRecord):
        decode(*encode(TransactionRecord(KEY, written(**wrong))))


def written(**fields: Any) -> TransactionLogValue:
    values: dict[str, Any] = {
        "producer_id": 1,
        "producer_epoch": 0,
        "transaction_timeout_ms": 1,
        "transaction_status": 1,
        "transaction_partitions": (),
        "transaction_last_update_timestamp_ms": 1,
        "transaction_start_timestamp_ms": 1,
    }
    return TransactionLogValue(**{**values, **fields})


def checked(key: bytes, value: bytes | None) -> None:
    """Decode, and check that nothing but the documented error is raised, and that every record can be replayed."""
    try:
        decoded = decode(key, value)
    except InvalidTransactionRecord:
        return
    if isinstance(decoded, TransactionRecord):
        assert decode(*encode(decoded)) == decoded
        replay(NO_TRANSACTIONS, decoded)


@given(st.sampled_from([b"\x00\x00", b""]), st.binary(), st.sampled_from([b"\x00\x00", b"\x00\x01", b""]), st.binary())
def test_any_bytes_are_a_record_or_unknown_or_invalid(prefix: bytes, key: bytes, version: bytes, value: bytes) -> None:
    checked(prefix + key, version + value)


@given(st.sampled_from(sorted(BYTES)), st.integers(0), st.integers(1, 255))
def test_a_damaged_byte_gives_a_record_or_unknown_or_invalid(name: str, place: int, bits: int) -> None:
    key, value = BYTES[name]
    both = bytearray(key + (value or b""))
    both[place % len(both)] ^= bits
    checked(bytes(both[: len(key)]), bytes(both[len(key) :]) if value else None)


@given(st.integers(0, 1 << 30), st.sampled_from([0, 1]), st.sampled_from(sorted(RECORDED_STATES)))
def test_what_is_written_is_read(seed: int, version: int, state: TransactionState) -> None:
    chance = Random(seed)
    value = random_message(TransactionLogValue, version, chance)
    fields = {field.name: getattr(value, field.name) for field in TransactionLogValue.fields}
    possible = TransactionLogValue(
        **{
            **fields,
            "producer_id": chance.randrange(2**63),
            "producer_epoch": chance.randrange(2**15),
            "transaction_status": int(state),
            "transaction_partitions": (PartitionsSchema(topic="orders", partition_ids=(chance.randrange(2**31),)),),
        }
    )
    record = TransactionRecord(KEY, possible, version)
    assert decode(*encode(record)) == record
