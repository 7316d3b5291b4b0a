from __future__ import annotations

import pytest

from kraft.log.admission import BATCHES_MAX
from kraft.log.append_work import COORDINATOR_RECORDS, AppendOrigin
from kraft.log.change import run_now
from kraft.log.format.control_record import EndTransactionMarker, MarkerType, build_marker
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.record_checks import RECORD_ERRORS_MAX
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import ErrorCode, InvalidRecords
from kraft.model.ids import LeaderEpoch
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import (
    NOW_MS,
    SMALL_SEGMENTS,
    append,
    append_with_work,
    batch_of,
    open_log,
    patched,
    refused,
)


@pytest.mark.parametrize(
    ("records", "code", "reason"),
    [
        (b"", ErrorCode.INVALID_RECORD, "no batch"),
        (batch_of("a")[:-1], ErrorCode.CORRUPT_MESSAGE, "is cut off after"),
        (batch_of("a")[:-1] + b"\x07", ErrorCode.CORRUPT_MESSAGE, "checksum"),
        (patched(batch_of("a"), 22, b"\x20"), ErrorCode.INVALID_RECORD, "control"),
        (patched(batch_of("a"), 22, b"\x08"), ErrorCode.INVALID_TIMESTAMP, "LogAppendTime"),
        (patched(batch_of("a"), 22, b"\x10"), ErrorCode.INVALID_RECORD, "lacks its producer id"),
        (patched(batch_of("a"), 23, b"\0\0\0\5"), ErrorCode.INVALID_RECORD, "1 records for 6 offsets"),
        (b"\0" * 7 + b"\5" + batch_of("a")[8:], ErrorCode.INVALID_RECORD, "must have base offset 0, not 5"),
        # A message of each older format: offset, size, checksum, magic, attributes, and from format 1 on a time.
        (bytes(8) + b"\0\0\0\x0f" + bytes(15), ErrorCode.INVALID_RECORD, "format 0"),
        (bytes(8) + b"\0\0\0\x17" + bytes(4) + b"\1\0" + bytes(17), ErrorCode.INVALID_RECORD, "format 1"),
        (build_batch([Record(0, 0, None, None)], producer_id=1), ErrorCode.INVALID_RECORD, "lacks its producer epoch"),
        (
            build_batch([Record(0, 0, None, None)], producer_id=1, producer_epoch=0, base_sequence=0) + batch_of("b"),
            ErrorCode.INVALID_RECORD,
            "one batch per partition",
        ),
    ],
)
def test_what_no_producer_may_send_is_refused_and_not_written(records: bytes, code: ErrorCode, reason: str) -> None:
    refusal = refused(open_log(MemoryDisk()), records)
    assert refusal.error_code is code
    assert reason in refusal.message


def test_no_more_batches_are_taken_than_the_event_loop_has_time_for() -> None:
    log = open_log(MemoryDisk())
    assert refused(log, batch_of("a") * (BATCHES_MAX + 1)).error_code is ErrorCode.INVALID_RECORD
    append_with_work(log, batch_of("a") * BATCHES_MAX)
    assert log.log_end_offset == BATCHES_MAX


def test_a_batch_above_the_bound_is_refused_naming_the_key_to_change() -> None:
    log = open_log(MemoryDisk(), TopicConfig(max_message_bytes=100))
    refusal = refused(log, batch_of("v" * 100))
    assert refusal.error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes=100" in refusal.message


@pytest.mark.parametrize("config", [TopicConfig(max_message_bytes=0), TopicConfig(segment_bytes=61)])
def test_a_coordinators_batches_may_be_of_any_size(config: TopicConfig) -> None:
    """Its records, and its markers in any topic: a transaction has to end, whatever was configured meanwhile."""
    leader, follower = open_log(MemoryDisk(), config), open_log(MemoryDisk(), config)
    commit = EndTransactionMarker(type=MarkerType.COMMIT, coordinator_epoch=0)
    marker = build_marker(commit, 7, 0, NOW_MS)
    for _ in range(3):
        leader.append_as_leader(batch_of("v" * 300), LeaderEpoch(0), NOW_MS, run_now, origin=COORDINATOR_RECORDS)
        leader.append_as_leader(marker, LeaderEpoch(0), NOW_MS, run_now, origin=AppendOrigin(is_coordinator=True))
    while follower.log_end_offset < leader.log_end_offset:
        follower.append_as_follower(leader.read(follower.log_end_offset, 1 << 20, leader.log_end_offset))
    assert leader.log_end_offset == 6
    assert refused(leader, batch_of("v" * 300)).error_code in {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }


def test_what_fits_no_segment_is_refused() -> None:
    log = open_log(MemoryDisk(), SMALL_SEGMENTS)
    assert refused(log, batch_of("v" * 300)).error_code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    log = open_log(MemoryDisk(), TopicConfig(cleanup_policy=("compact",)))
    refusal = refused(log, batch_of("v"))
    assert refusal.error_code is ErrorCode.INVALID_RECORD
    assert "needs a key" in refusal.message


def test_the_records_that_break_a_rule_are_named() -> None:
    log = open_log(MemoryDisk(), TopicConfig(cleanup_policy=("compact",)))
    keys = (None, b"key", None, b"")
    refusal = refused(log, build_batch([Record(offset, NOW_MS, key, b"v") for offset, key in enumerate(keys)]))
    assert isinstance(refusal, InvalidRecords)
    assert [error.batch_index for error in refusal.record_errors] == [0, 2]


@pytest.mark.parametrize(("wrong_ms", "named"), [(NOW_MS + 1_001, [1]), (NOW_MS - 2_001, [1])])
def test_the_records_with_wrong_timestamps_are_named(wrong_ms: int, named: list[int]) -> None:
    config = TopicConfig(message_timestamp_after_max_ms=1_000, message_timestamp_before_max_ms=2_000)
    times = (NOW_MS, wrong_ms, -1)
    records = build_batch([Record(offset, at_ms, None, b"v") for offset, at_ms in enumerate(times)])
    refusal = refused(open_log(MemoryDisk(), config), records)
    assert isinstance(refusal, InvalidRecords)
    assert [error.batch_index for error in refusal.record_errors] == named


def test_not_more_records_are_named_than_an_answer_has_room_for() -> None:
    log = open_log(MemoryDisk(), TopicConfig(cleanup_policy=("compact",)))
    refusal = refused(log, build_batch([Record(offset, NOW_MS, None, None) for offset in range(RECORD_ERRORS_MAX + 9)]))
    assert isinstance(refusal, InvalidRecords)
    assert len(refusal.record_errors) == RECORD_ERRORS_MAX


@pytest.mark.parametrize(
    ("timestamp_ms", "reason"),
    [(NOW_MS + 1_001, "message.timestamp.after.max.ms=1000"), (NOW_MS - 2_001, "message.timestamp.before.max.ms=2000")],
)
def test_a_timestamp_too_far_from_the_brokers_clock_is_refused(timestamp_ms: int, reason: str) -> None:
    config = TopicConfig(message_timestamp_after_max_ms=1_000, message_timestamp_before_max_ms=2_000)
    log = open_log(MemoryDisk(), config)
    refusal = refused(log, batch_of("v", timestamp_ms=timestamp_ms))
    assert refusal.error_code is ErrorCode.INVALID_TIMESTAMP
    assert reason in refusal.message
    for within in (NOW_MS + 1_000, NOW_MS - 2_000, -1):
        append(log, "v", timestamp_ms=within)
