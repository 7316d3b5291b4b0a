from __future__ import annotations

from pathlib import Path

import pytest
from crc32c import crc32c

from kraft.log.cleaned_segments import CleaningResult, open_cleaned
from kraft.log.cleaning_plan import plan_cleaning
from kraft.log.compaction import clean
from kraft.log.leader_epochs import EpochStart
from kraft.log.log_config import UNLIMITED, LogConfig
from kraft.log.partition_log import PartitionLog
from kraft.log.record_batch import TimestampType, build_batch, decode_batch, split, validate
from kraft.log.record_codec import Record
from kraft.log.segment import Segment
from kraft.model.errors import Corruption, ErrorCode, InvalidBatch, Refusal
from kraft.model.ids import LeaderEpoch, Offset
from kraft.runtime.disk import RealDisk
from tests.simulation.sim_disk import SimDisk
from tests.unit.log.log_building import (
    DIRECTORY,
    NOW_MS,
    ORDERS,
    append,
    batch_of,
    open_log,
    read_all,
    read_records,
    sync,
)
from tests.unit.log.memory_disk import MemoryDisk

SMALL_SEGMENTS = LogConfig(segment_bytes=200, index_interval_bytes=100)
EPOCH = LeaderEpoch(0)


def open_log_at(directory: Path, config: LogConfig) -> PartitionLog:
    return PartitionLog.open(RealDisk(), f"{directory}/orders-0", config, ORDERS)


def refused(log: PartitionLog, records: bytes, epoch: int = 0) -> Refusal:
    end = log.log_end_offset
    with pytest.raises(Refusal) as refusal:
        log.append_as_leader(records, LeaderEpoch(epoch), NOW_MS)
    assert log.log_end_offset == end
    return refusal.value


# --- appending -----------------------------------------------------------------------------------------------


def test_records_get_offsets_in_the_order_they_came() -> None:
    log = open_log(MemoryDisk())
    first, second = append(log, "a", "b"), append(log, "c")
    assert (first.base_offset, first.last_offset, first.batches) == (0, 1, 1)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    assert read_all(log) == ["a", "b", "c"]


def test_several_batches_are_appended_at_once_and_the_buffer_is_left_alone() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    records = batch_of("b", "c") + batch_of("d")
    before = bytes(records)
    result = log.append_as_leader(memoryview(records), LeaderEpoch(3), NOW_MS)
    assert (result.base_offset, result.last_offset, result.batches) == (1, 3, 2)
    assert records == before
    stored = split(log.read(Offset(1), 1 << 20, Offset(4)))
    assert [(header.base_offset, header.leader_epoch) for header, _ in stored] == [(1, 3), (3, 3)]
    assert [validate(batch).record_count for _, batch in stored] == [2, 1]


def test_append_time_replaces_the_producers_timestamps() -> None:
    log = open_log(MemoryDisk(), LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    assert append(log, "a", "b").log_append_time_ms == NOW_MS
    batch = log.read(Offset(0), 1 << 20, Offset(2))
    validate(batch)
    assert [record.timestamp_ms for record in decode_batch(batch)] == [NOW_MS, NOW_MS]
    assert log.offset_of_max_timestamp() == (0, NOW_MS)


def test_create_time_is_answered_with_no_append_time() -> None:
    assert append(open_log(MemoryDisk()), "a").log_append_time_ms == -1


def patched(batch: bytes, position: int, patch: bytes) -> bytes:
    changed = bytearray(batch)
    changed[position : position + len(patch)] = patch
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize(
    ("records", "code", "reason"),
    [
        (b"", ErrorCode.INVALID_RECORD, "no batch"),
        (batch_of("a")[:-1], ErrorCode.CORRUPT_MESSAGE, "ends after"),
        (batch_of("a")[:-1] + b"\x07", ErrorCode.CORRUPT_MESSAGE, "checksum"),
        (patched(batch_of("a"), 22, b"\x20"), ErrorCode.INVALID_RECORD, "control"),
        (patched(batch_of("a"), 22, b"\x08"), ErrorCode.INVALID_TIMESTAMP, "LogAppendTime"),
        (patched(batch_of("a"), 22, b"\x10"), ErrorCode.INVALID_REQUEST, "transactions are not supported"),
        (patched(batch_of("a"), 23, b"\0\0\0\5"), ErrorCode.INVALID_RECORD, "1 records over 6 offsets"),
        (build_batch([Record(0, 0, None, None)], producer_id=1), ErrorCode.INVALID_RECORD, "lacks its epoch"),
        (
            build_batch([Record(0, 0, None, None)], producer_id=1, producer_epoch=0, base_sequence=0) + batch_of("b"),
            ErrorCode.INVALID_RECORD,
            "one batch at a time",
        ),
    ],
)
def test_what_no_producer_may_send_is_refused_and_not_written(records: bytes, code: ErrorCode, reason: str) -> None:
    refusal = refused(open_log(MemoryDisk()), records)
    assert refusal.error_code is code
    assert reason in refusal.message


def test_a_batch_above_the_bound_is_refused_naming_the_key_to_change() -> None:
    log = open_log(MemoryDisk(), LogConfig(max_message_bytes=100))
    refusal = refused(log, batch_of("v" * 100))
    assert refusal.error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes=100" in refusal.message


def test_what_fits_no_segment_is_refused() -> None:
    log = open_log(MemoryDisk(), SMALL_SEGMENTS)
    assert refused(log, batch_of("v" * 300)).error_code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_leader_of_an_earlier_epoch_is_fenced() -> None:
    log = open_log(MemoryDisk())
    append(log, "a", epoch=4)
    assert refused(log, batch_of("b"), epoch=3).error_code is ErrorCode.FENCED_LEADER_EPOCH


def test_a_retried_batch_is_answered_with_its_first_offsets_and_not_written_again() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    batch = build_batch([Record(0, 0, None, b"b")] * 2, producer_id=9, producer_epoch=0, base_sequence=0)
    log.append_as_leader(batch, EPOCH, NOW_MS)
    again = log.append_as_leader(batch, EPOCH, NOW_MS)
    assert (again.duplicate, again.base_offset, again.last_offset) == (True, 1, 2)
    assert read_all(log) == ["a", "b", "b"]


def test_a_gap_in_a_producers_sequence_is_refused() -> None:
    log = open_log(MemoryDisk())
    for sequence in (0, 1):
        log.append_as_leader(
            build_batch([Record(0, 0, None, None)], producer_id=9, producer_epoch=0, base_sequence=sequence),
            EPOCH,
            NOW_MS,
        )
    gap = build_batch([Record(0, 0, None, None)], producer_id=9, producer_epoch=0, base_sequence=3)
    assert refused(log, gap).error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_follower_copies_the_leaders_bytes() -> None:
    leader, follower = open_log(MemoryDisk()), open_log(MemoryDisk())
    for epoch, value in ((0, "a"), (0, "b"), (2, "c"), (5, "d")):
        append(leader, value, epoch=epoch)
    records = leader.read(Offset(0), 1 << 20, Offset(4))
    assert follower.append_as_follower(records) == 3
    assert follower.read(Offset(0), 1 << 20, Offset(4)) == records
    assert follower.epoch_cache.entries == leader.epoch_cache.entries == (EpochStart(EPOCH, Offset(0)), (2, 2), (5, 3))


def test_a_follower_spreads_what_it_copies_over_segments() -> None:
    leader, disk = open_log(MemoryDisk()), MemoryDisk()
    for number in range(10):
        append(leader, f"value {number}")
    follower = open_log(disk, SMALL_SEGMENTS)
    follower.append_as_follower(leader.read(Offset(0), 1 << 20, Offset(10)))
    assert read_all(follower) == read_all(leader)
    logs = [name for name in disk.list(DIRECTORY) if name.endswith(".log")]
    assert len(logs) == 5
    segments = {name: disk.read_file(f"{DIRECTORY}/{name}") for name in logs}
    assert all(len(segment) <= 200 for segment in segments.values())
    assert logs == [f"{split(segment)[0][0].base_offset:020d}.log" for segment in segments.values()]


def test_a_follower_refuses_what_does_not_continue_its_log() -> None:
    leader, follower = open_log(MemoryDisk()), open_log(MemoryDisk())
    append(leader, "a", epoch=3)
    append(leader, "b", epoch=3)
    append(follower, "x", epoch=4)
    with pytest.raises(InvalidBatch, match="offset 0 came, expected 1"):
        follower.append_as_follower(leader.read(Offset(0), 1 << 20, Offset(1)))
    with pytest.raises(InvalidBatch, match="leader epoch 3 came after 4"):
        follower.append_as_follower(leader.read(Offset(1), 1 << 20, Offset(2)))
    rotten = bytearray(leader.read(Offset(1), 1 << 20, Offset(2)))
    rotten[-2] ^= 1
    with pytest.raises(InvalidBatch, match="checksum"):
        follower.append_as_follower(rotten)
    assert read_all(follower) == ["x"]


# --- reading -------------------------------------------------------------------------------------------------


def test_a_read_gives_whole_batches_and_at_least_one() -> None:
    log = open_log(MemoryDisk())
    append(log, "a", "b")
    append(log, "c")
    assert [record.offset for record in decode_batch(log.read(Offset(1), 1, Offset(3)))] == [0, 1]
    size = log.size_bytes
    assert len(log.read(Offset(0), size, Offset(3))) == size
    assert len(split(log.read(Offset(0), size - 1, Offset(3)))) == 1


def test_a_batch_that_ends_exactly_at_the_bound_is_given() -> None:
    log = open_log(MemoryDisk())
    for value in "abc":
        append(log, value)
    size = log.size_bytes // 3
    assert [len(log.read(Offset(0), bytes_max, Offset(3))) for bytes_max in (2 * size - 1, 2 * size, 3 * size)] == [
        size,
        2 * size,
        3 * size,
    ]


def test_a_read_never_passes_the_upper_bound() -> None:
    log = open_log(MemoryDisk())
    append(log, "a", "b")
    append(log, "c", "d")
    assert len(split(log.read(Offset(0), 1 << 20, Offset(4)))) == 2
    assert len(split(log.read(Offset(0), 1 << 20, Offset(3)))) == 1
    assert log.read(Offset(2), 1 << 20, Offset(3)) == b""
    assert log.read(Offset(0), 1 << 20, Offset(1)) == b""
    assert log.read(Offset(2), 1 << 20, Offset(2)) == b""


def test_a_read_outside_the_log_is_refused() -> None:
    log = open_log(MemoryDisk())
    log.truncate_fully_and_start_at(Offset(10))
    append(log, "a")
    assert log.read(Offset(11), 100, Offset(11)) == b""
    for offset in (9, 12):
        with pytest.raises(Refusal, match=r"outside \[10, 11\]") as refusal:
            log.read(Offset(offset), 100, Offset(11))
        assert refusal.value.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("bytes_max", [1, 150, 1000, 1 << 20])
def test_every_offset_is_found_in_every_segment(bytes_max: int) -> None:
    log = open_log(MemoryDisk(), LogConfig(segment_bytes=1000, index_interval_bytes=100))
    for number in range(60):
        append(log, *(f"{number}/{index}" for index in range(number % 4 + 1)))
    assert read_all(log, bytes_max) == [f"{number}/{index}" for number in range(60) for index in range(number % 4 + 1)]
    for offset in range(log.log_end_offset):
        header, batch = split(log.read(Offset(offset), 1, log.log_end_offset))[0]
        assert header.base_offset <= offset <= header.last_offset
        validate(batch)


def test_a_rotten_header_is_corruption_when_it_is_read() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    append(log, "b")
    disk._files[f"{DIRECTORY}/{0:020d}.log"].data[16] = 9
    with pytest.raises(Corruption, match="at byte 0"):
        log.read(Offset(1), 100, Offset(2))


def test_timestamps_are_looked_up_to_the_record() -> None:
    log = open_log(MemoryDisk(), SMALL_SEGMENTS)
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None
    for start in (1000, 5000, 3000, 9000, 7000):
        append(log, "a", "b", "c", timestamp_ms=start)
    assert log.offset_for_timestamp(0) == (0, 1000)
    assert log.offset_for_timestamp(1002) == (2, 1002)
    assert log.offset_for_timestamp(1003) == (3, 5000)
    assert log.offset_for_timestamp(5002) == (5, 5002)
    assert log.offset_for_timestamp(5003) == (9, 9000)
    assert log.offset_for_timestamp(9003) is None
    assert log.offset_of_max_timestamp() == (11, 9002)
    log.truncate_to(Offset(9))
    assert log.offset_of_max_timestamp() == (5, 5002)


# --- truncation ----------------------------------------------------------------------------------------------


def test_truncation_reaches_across_segments_and_takes_epochs_with_it() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL_SEGMENTS)
    for number in range(12):
        append(log, f"value {number}", epoch=number // 4)
    assert log.truncate_to(Offset(5)) == 5
    assert read_all(log) == [f"value {number}" for number in range(5)]
    assert log.epoch_cache.entries == ((0, 0), (1, 4))
    append(log, "new", epoch=9)
    assert read_all(log)[-2:] == ["value 4", "new"]
    assert log.end_offset_for_epoch(LeaderEpoch(1)) == (1, 5)
    disk.crash()
    assert read_all(open_log(disk, SMALL_SEGMENTS)) == [f"value {number}" for number in range(5)]


def test_truncating_inside_a_batch_drops_all_of_it() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    append(log, "b", "c")
    assert log.truncate_to(Offset(2)) == 1
    assert read_all(log) == ["a"]


def test_truncating_at_or_above_the_end_changes_nothing() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    assert log.truncate_to(Offset(1)) == 1
    assert log.truncate_to(Offset(99)) == 1


def test_truncating_below_the_start_begins_there_anew() -> None:
    log = open_log(MemoryDisk())
    log.truncate_fully_and_start_at(Offset(50))
    append(log, "a", epoch=3)
    assert log.truncate_to(Offset(20)) == 20
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (20, 20, -1)


def test_truncation_forgets_what_producers_wrote_there() -> None:
    log = open_log(MemoryDisk(), SMALL_SEGMENTS)
    batches = [
        build_batch([Record(0, 0, None, b"v")], producer_id=9, producer_epoch=0, base_sequence=sequence)
        for sequence in range(8)
    ]
    for batch in batches:
        log.append_as_leader(batch, EPOCH, NOW_MS)
    log.truncate_to(Offset(6))
    assert log.append_as_leader(batches[5], EPOCH, NOW_MS).duplicate
    assert log.append_as_leader(batches[1], EPOCH, NOW_MS).duplicate
    assert not log.append_as_leader(batches[6], EPOCH, NOW_MS).duplicate


def test_after_truncation_other_batches_are_found_where_others_stood() -> None:
    log = open_log(MemoryDisk(), LogConfig(index_interval_bytes=100))
    for number in range(20):
        append(log, f"{number}")
    log.truncate_to(Offset(4))
    for number in range(4, 20):
        append(log, f"{number}" + "x" * 45)
    for offset in range(20):
        header, batch = split(log.read(Offset(offset), 1, Offset(20)))[0]
        assert header.base_offset == offset
        validate(batch)


# --- durability ----------------------------------------------------------------------------------------------


def test_only_a_completed_sync_makes_records_durable() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    ticket = log.prepare_sync()
    append(log, "b")
    ticket.run()
    assert (log.synced_end_offset, log.dirty) == (0, True)
    log.complete_sync(ticket)
    assert (log.synced_end_offset, log.dirty) == (1, True)
    sync(log)
    assert (log.synced_end_offset, log.dirty) == (2, False)
    append(log, "c")
    disk.crash()
    assert read_all(open_log(disk)) == ["a", "b"]


def test_truncation_during_a_sync_takes_back_what_it_would_have_covered() -> None:
    log = open_log(MemoryDisk())
    for value in "abcd":
        append(log, value)
    ticket = log.prepare_sync()
    log.truncate_to(Offset(2))
    append(log, "x")
    append(log, "y")
    ticket.run()
    log.complete_sync(ticket)
    assert log.synced_end_offset == 2
    assert log.log_end_offset == 4


def test_a_segment_removed_during_a_sync_is_closed_when_the_sync_is_complete() -> None:
    log = open_log(MemoryDisk(), SMALL_SEGMENTS)
    for number in range(6):
        append(log, f"value {number}")
    ticket = log.prepare_sync()
    log.truncate_fully_and_start_at(Offset(2))
    ticket.run()
    assert ticket.error is None
    log.complete_sync(ticket)
    assert (log.synced_end_offset, log.log_end_offset) == (2, 2)
    with pytest.raises(OSError, match="closed"):
        ticket.file.sync()


def test_an_emptied_log_is_durable_even_while_a_sync_runs() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    ticket = log.prepare_sync()
    log.truncate_fully_and_start_at(Offset(50))
    assert (log.log_start_offset, log.synced_end_offset, log.log_end_offset) == (50, 50, 50)
    append(log, "b")
    ticket.run()
    log.complete_sync(ticket)
    assert (log.synced_end_offset, log.dirty) == (50, True)


def test_rolling_during_a_sync_does_not_count_as_durable_before_both_succeeded() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    ticket = log.prepare_sync()
    append(log, "b")
    log.roll()
    assert log.synced_end_offset == 0
    ticket.run()
    log.complete_sync(ticket)
    assert log.synced_end_offset == 2


def test_rolling_makes_the_old_segment_durable() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    log.roll()
    assert (log.synced_end_offset, log.dirty) == (1, False)
    log.roll()
    append(log, "b")
    disk.crash()
    assert read_all(open_log(disk)) == ["a"]


def test_after_a_failed_sync_nothing_is_taken_for_good_again() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    disk.fails_next_sync = True
    ticket = log.prepare_sync()
    ticket.run()
    with pytest.raises(Refusal) as refusal:
        log.complete_sync(ticket)
    assert refusal.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.synced_end_offset == 0
    for attempt in (log.prepare_sync, log.roll, lambda: append(log, "b"), lambda: log.truncate_to(Offset(0))):
        with pytest.raises(Refusal, match="offline"):
            attempt()
    assert read_all(log) == ["a"]
    log.close()


def test_after_a_failed_write_the_log_is_offline() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    disk.fails_writes = True
    assert refused(log, batch_of("b")).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.fails_writes = False
    assert "no space left" in refused(log, batch_of("b")).message
    assert log.failure is not None


def test_a_failed_roll_takes_the_log_offline() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    disk.fails_next_sync = True
    with pytest.raises(Refusal, match="goes offline"):
        log.roll()
    assert (log.synced_end_offset, log.log_end_offset) == (0, 1)


# --- end of life ---------------------------------------------------------------------------------------------


def test_a_closed_log_is_durable_and_takes_nothing_more() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    log.close()
    assert refused(log, batch_of("b")).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    log.close()
    disk.crash()
    assert read_all(open_log(disk, clean_shutdown=True)) == ["a"]


def test_a_deleted_log_leaves_nothing() -> None:
    disk = MemoryDisk()
    log = open_log(disk, SMALL_SEGMENTS)
    for number in range(6):
        append(log, f"value {number}")
    log.delete()
    assert disk.list(DIRECTORY) == []


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"segment_bytes": 60}, "segment.bytes"),
        ({"segment_bytes": 1 << 31}, "segment.bytes"),
        ({"index_interval_bytes": -1}, "index.interval.bytes"),
        ({"max_message_bytes": -1}, "max.message.bytes"),
    ],
)
def test_a_configuration_that_no_log_can_work_with_is_refused(values: dict[str, int], key: str) -> None:
    with pytest.raises(ValueError, match=key):
        LogConfig(**values)  # type: ignore[arg-type]  # The last field is no number, and is not given.


# --- segments ------------------------------------------------------------------------------------------------


def test_a_segment_is_closed_when_its_first_record_is_old_by_the_clock_of_the_records() -> None:
    log = open_log(MemoryDisk(), LogConfig(segment_ms=1_000))
    for timestamp_ms in (5_000, 5_500, 6_000, 6_001, 9_000):
        append(log, "v", timestamp_ms=timestamp_ms)
    assert [segment.base_offset for segment in log.segments()] == [0, 3, 4]
    assert [segment.max_timestamp_ms for segment in log.segments()] == [6_000, 6_001, 9_000]


def test_a_quiet_log_is_rolled_when_somebody_looks_at_the_clock() -> None:
    log = open_log(MemoryDisk(), LogConfig(segment_ms=1_000))
    append(log, "v", timestamp_ms=5_000)
    assert not log.roll_if_due(6_000)
    assert log.roll_if_due(6_001)
    assert not log.roll_if_due(99_000), "an empty segment has no age"
    assert [segment.base_offset for segment in log.segments()] == [0, 1]


def test_jitter_closes_segments_earlier_and_never_later() -> None:
    log = open_log(MemoryDisk(), LogConfig(segment_ms=1_000, segment_jitter_ms=900))
    append(log, "v", timestamp_ms=5_000)
    due = next(now_ms for now_ms in range(5_000, 7_000) if log.roll_if_due(now_ms))
    assert 5_100 <= due <= 6_001


def test_a_segment_is_closed_when_its_index_is_full() -> None:
    log = open_log(MemoryDisk(), LogConfig(segment_index_bytes=24, index_interval_bytes=0))
    for number in range(9):
        append(log, f"{number}", timestamp_ms=1_000 + number)
    assert [segment.base_offset for segment in log.segments()] == [0, 3, 6]
    assert read_all(log) == [f"{number}" for number in range(9)]


def test_space_is_reserved_for_a_new_segment_and_given_back_behind_its_records(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1 << 20, preallocate=True)
    log = open_log_at(tmp_path, config)
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    append(log, "v")
    assert path.stat().st_size < 100, "what a reader sees is not affected"
    assert path.stat().st_blocks * 512 >= 1 << 20
    log.roll()
    assert path.stat().st_blocks * 512 < 1 << 20


# --- retention -----------------------------------------------------------------------------------------------


def test_old_segments_go_and_the_start_of_the_log_with_them() -> None:
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(segment_bytes=100, retention_ms=1_000))
    for number in range(5):
        append(log, f"value {number}", timestamp_ms=1_000 * number)
    files = log.apply_retention(now_ms=3_500, high_watermark=Offset(5))
    assert log.log_start_offset == 3
    assert read_all(log) == ["value 3", "value 4"]
    assert len(files) == 9
    for path in files:
        disk.remove(path)
    assert log.apply_retention(now_ms=3_500, high_watermark=Offset(5)) == []
    with pytest.raises(Refusal, match="outside"):
        log.read(Offset(2), 100, Offset(5))
    sync(log)
    disk.crash()
    again = open_log(disk, log.config)
    assert (again.log_start_offset, read_all(again)) == (3, ["value 3", "value 4"])


def test_a_log_whose_records_are_all_old_is_emptied_and_goes_on_behind_them() -> None:
    log = open_log(MemoryDisk(), LogConfig(retention_ms=1_000))
    append(log, "a", "b", timestamp_ms=1_000)
    assert log.apply_retention(now_ms=99_000, high_watermark=Offset(1)) == [], "not all of it is committed"
    log.apply_retention(now_ms=99_000, high_watermark=Offset(2))
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (2, 2, 0)
    assert append(log, "c").base_offset == 2


def test_another_retention_takes_effect_while_the_log_is_open() -> None:
    log = open_log(MemoryDisk(), LogConfig(segment_bytes=100, retention_bytes=200))
    for number in range(6):
        append(log, f"value {number}")
    log.reconfigure(LogConfig(segment_bytes=100, retention_ms=UNLIMITED))
    assert log.apply_retention(NOW_MS, Offset(6)) == []
    log.reconfigure(LogConfig(segment_bytes=100, retention_ms=UNLIMITED, retention_bytes=150))
    log.apply_retention(NOW_MS, Offset(6))
    assert log.size_bytes <= 225


def test_records_below_the_log_start_are_gone_at_once_and_for_good() -> None:
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(segment_bytes=100))
    for number in range(5):
        append(log, f"value {number}", epoch=number)
    log.advance_log_start(Offset(3))
    assert log.log_start_offset == 3
    assert log.epoch_cache.entries[0] == EpochStart(LeaderEpoch(3), Offset(3))
    log.advance_log_start(Offset(1))
    assert log.log_start_offset == 3, "it never goes back"
    disk.crash()
    again = open_log(disk, log.config)
    assert (again.log_start_offset, read_all(again)) == (3, ["value 3"]), "the last one was not synced"


def test_the_log_start_never_passes_the_end() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    with pytest.raises(Refusal) as refusal:
        log.advance_log_start(Offset(2))
    assert refusal.value.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_look_up_by_time_does_not_find_what_was_deleted() -> None:
    log = open_log(MemoryDisk())
    append(log, "a", "b", "c", timestamp_ms=1_000)
    log.advance_log_start(Offset(2))
    assert log.offset_for_timestamp(0) == (2, 1_002)
    assert log.offset_of_max_timestamp() == (2, 1_002)


# --- holes ---------------------------------------------------------------------------------------------------


def test_a_follower_takes_the_holes_that_compaction_made_at_its_leader() -> None:
    disk = MemoryDisk()
    log = open_log(disk, LogConfig(segment_bytes=200))
    for offset in (0, 5, 6, 40, 90):
        record = Record(0, 1_000, b"k", f"{offset}".encode())
        log.append_as_follower(build_batch([record], base_offset=offset, leader_epoch=0))
    for start, found in ((0, 0), (1, 5), (5, 5), (7, 40), (41, 90), (90, 90)):
        assert split(log.read(Offset(start), 1, Offset(91)))[0][0].base_offset == found
    sync(log)
    disk.crash()
    again = open_log(disk, log.config)
    assert (again.log_end_offset, again.log_start_offset) == (91, 0)


def test_an_empty_follower_that_begins_inside_its_leaders_batch_takes_all_of_it() -> None:
    disk = MemoryDisk()
    leader, follower = open_log(MemoryDisk()), open_log(disk)
    append(leader, "a", "b", "c")
    follower.truncate_fully_and_start_at(Offset(1))
    follower.append_as_follower(leader.read(Offset(1), 1 << 20, Offset(3)))
    sync(follower)
    disk.crash()
    for log in (follower, open_log(disk)):
        assert (log.log_start_offset, log.log_end_offset) == (1, 3)
        assert read_all(log) == ["b", "c"]


# --- a full disk ---------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_an_append_and_the_log_goes_on_when_there_is_room() -> None:
    disk = SimDisk(capacity_bytes=20_000)
    log = open_log(disk, LogConfig(segment_bytes=4_000))
    while disk.free_bytes(DIRECTORY) > 600:
        append(log, "x" * 500)
    for _ in range(5):
        assert refused(log, batch_of("x" * 500)).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is None
    assert len(read_all(log)) == log.log_end_offset > 20
    log.reconfigure(LogConfig(segment_bytes=4_000, retention_bytes=4_000))
    for path in log.apply_retention(NOW_MS, log.log_end_offset):
        disk.remove(path)
    append(log, "there is room again")
    log.close()
    assert read_all(open_log(disk))[-1] == "there is room again"


# --- compaction ----------------------------------------------------------------------------------------------


COMPACT = LogConfig(segment_bytes=300, compacts=True, deletes=False, min_cleanable_dirty_ratio=0)


def keyed(log: PartitionLog, key: str, value: str | None) -> None:
    record = Record(0, 1_000, key.encode(), None if value is None else value.encode())
    log.append_as_leader(build_batch([record]), EPOCH, NOW_MS)


def cleaned(disk: MemoryDisk, log: PartitionLog) -> tuple[CleaningResult, list[Segment]]:
    plan = plan_cleaning(log.segments(), log.config, log.cleaned_end_offset, log.log_end_offset, NOW_MS)
    assert plan is not None
    producers = {producer_id: state.last_offset for producer_id, state in log.producers.items()}
    result = clean(disk, DIRECTORY, plan, log.config, NOW_MS, 1 << 20, producers, lambda _: None)
    return result, open_cleaned(disk, DIRECTORY, result, log.config.index_interval_bytes)


def test_a_cleaned_log_reads_as_the_newest_of_each_key_at_its_own_offset_also_after_a_crash() -> None:
    disk = MemoryDisk()
    log = open_log(disk, COMPACT)
    for number in range(30):
        keyed(log, f"k{number % 3}", f"{number}")
    for path in log.install_cleaned(*cleaned(disk, log)):
        disk.remove(path)
    active = log.segments()[-1]
    kept = read_records(log)
    below = {record.key: record.offset for record in kept if record.offset < active.base_offset}
    assert len(below) == 3, "one of each key below the segment that grows"
    assert all(record.value == str(record.offset).encode() for record in kept)
    assert log.cleaned_end_offset == active.base_offset
    assert (log.log_start_offset, log.log_end_offset) == (0, 30)
    keyed(log, "k0", "30")
    sync(log)
    disk.crash()
    again = open_log(disk, COMPACT)
    assert [record.offset for record in read_records(again)] == [*(record.offset for record in kept), 30]
    assert again.cleaned_end_offset == log.cleaned_end_offset


def test_what_was_cleaned_of_a_log_that_changed_meanwhile_is_thrown_away() -> None:
    disk = MemoryDisk()
    log = open_log(disk, COMPACT)
    for number in range(30):
        keyed(log, "k", f"{number}")
    result = cleaned(disk, log)
    log.truncate_to(Offset(8))
    before = [record.value for record in read_records(log)]
    assert log.install_cleaned(*result) == []
    assert [record.value for record in read_records(log)] == before
    assert not [name for name in disk.list(DIRECTORY) if name.endswith(".cleaned")]
    assert log.cleaned_end_offset == 0


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    log = open_log(MemoryDisk(), COMPACT)
    refusal = refused(log, batch_of("v"))
    assert refusal.error_code is ErrorCode.INVALID_RECORD
    assert "needs a key" in refusal.message


@pytest.mark.parametrize(
    ("timestamp_ms", "reason"),
    [(NOW_MS + 1_001, "message.timestamp.after.max.ms=1000"), (NOW_MS - 2_001, "message.timestamp.before.max.ms=2000")],
)
def test_a_timestamp_too_far_from_the_brokers_clock_is_refused(timestamp_ms: int, reason: str) -> None:
    config = LogConfig(message_timestamp_after_max_ms=1_000, message_timestamp_before_max_ms=2_000)
    log = open_log(MemoryDisk(), config)
    refusal = refused(log, batch_of("v", timestamp_ms=timestamp_ms))
    assert refusal.error_code is ErrorCode.INVALID_TIMESTAMP
    assert reason in refusal.message
    for within in (NOW_MS + 1_000, NOW_MS - 2_000, -1):
        append(log, "v", timestamp_ms=within)
