from __future__ import annotations

import pytest
from aiokafka.record.control_record import ABORT_MARKER, COMMIT_MARKER, ControlRecord
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from kraft.log.format.control_record import EndTransactionMarker, MarkerType, decode_marker, encode_marker
from kraft.log.format.record_batch import build_batch, decode_batch, iter_records, read_header
from kraft.log.format.record_codec import Record
from kraft.model.errors import InvalidBatch

COMMIT = EndTransactionMarker(type=MarkerType.COMMIT, coordinator_epoch=7)
ABORT = EndTransactionMarker(type=MarkerType.ABORT, coordinator_epoch=0)


def test_golden_markers_both_ways() -> None:
    commit = Record(0, 5, bytes.fromhex("0000 0001"), bytes.fromhex("0000 00000007"))
    abort = Record(0, 5, bytes.fromhex("0000 0000"), bytes.fromhex("0000 00000000"))
    assert encode_marker(COMMIT, timestamp_ms=5) == commit
    assert encode_marker(ABORT, timestamp_ms=5) == abort
    assert decode_marker(commit) == COMMIT
    assert decode_marker(abort) == ABORT


def test_a_control_batch_is_read_back_and_hidden_from_consumers() -> None:
    batch = build_batch([encode_marker(COMMIT, 5)], producer_id=9, producer_epoch=1, transactional=True, control=True)
    header = read_header(batch)
    assert (header.is_control, header.is_transactional, header.producer_id) == (True, True, 9)
    assert [decode_marker(record) for record in decode_batch(batch)] == [COMMIT]
    assert list(iter_records(batch)) == []


@pytest.mark.parametrize(("marker", "theirs"), [(COMMIT, COMMIT_MARKER), (ABORT, ABORT_MARKER)])
def test_kafka_python_and_aiokafka_read_our_markers(marker: EndTransactionMarker, theirs: ControlRecord) -> None:
    record = encode_marker(marker, 5)
    assert ControlRecord.parse(record.key) == theirs
    batch = build_batch([record], producer_id=9, producer_epoch=1, transactional=True, control=True)
    (read,) = MemoryRecords(batch).next_batch()
    assert (read.commit, read.abort) == (marker is COMMIT, marker is ABORT)


def test_what_ends_no_transaction_is_no_marker() -> None:
    leader_change = Record(0, 5, bytes.fromhex("0000 0002"), b"anything")
    assert decode_marker(leader_change) is None


def test_fields_of_later_versions_are_skipped() -> None:
    later = Record(0, 5, bytes.fromhex("0001 0001 ff"), bytes.fromhex("0001 00000007 ffff"))
    assert decode_marker(later) == COMMIT


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"", "key of a control record is null"),
        (b"\x00\x00\x00", b"", "key of a control record is 3 bytes, not 4"),
        (b"\x00\x00\x00\x01", None, "value of a control record is null"),
        (b"\x00\x00\x00\x01", b"\x00\x00", "value of a control record is 2 bytes, not 6"),
        (b"\xff\xff\x00\x01", bytes(6), "key of a control record has version -1"),
        (b"\x00\x00\x00\x01", b"\xff\xff" + bytes(4), "value of a control record has version -1"),
    ],
)
def test_a_broken_marker_is_refused(key: bytes | None, value: bytes | None, reason: str) -> None:
    with pytest.raises(InvalidBatch, match=reason):
        decode_marker(Record(0, 5, key, value))


@given(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=9))
def test_any_key_and_value_end_in_invalid_batch_at_worst(key: bytes | None, value: bytes | None) -> None:
    try:
        decode_marker(Record(0, 5, key, value))
    except InvalidBatch:
        return
