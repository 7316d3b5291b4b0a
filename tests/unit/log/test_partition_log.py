from __future__ import annotations

from errno import EMFILE, ENFILE, ENOMEM

import pytest

from kraft.log.change import run_now
from kraft.log.format.record_batch import build_batch, decode_batch, split, validate
from kraft.log.format.record_codec import Record
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import Corruption, ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch, Offset
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import (
    DIRECTORY,
    EPOCH,
    NOW_MS,
    SMALL_SEGMENTS,
    append,
    batch_of,
    newest,
    offset_at,
    open_log,
    read_all,
    refused,
)

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
    result = log.append_as_leader(memoryview(records), LeaderEpoch(3), NOW_MS, run_now)
    assert (result.base_offset, result.last_offset, result.batches) == (1, 3, 2)
    assert records == before
    stored = split(log.read(Offset(1), 1 << 20, Offset(4)))
    assert [(header.base_offset, header.leader_epoch) for header, _ in stored] == [(1, 3), (3, 3)]
    assert [validate(batch).record_count for _, batch in stored] == [2, 1]


def test_append_time_replaces_the_producers_timestamps() -> None:
    log = open_log(MemoryDisk(), TopicConfig(message_timestamp_type="LogAppendTime"))
    assert append(log, "a", "b").log_append_time_ms == NOW_MS
    batch = log.read(Offset(0), 1 << 20, Offset(2))
    validate(batch)
    assert [record.timestamp_ms for record in decode_batch(batch)] == [NOW_MS, NOW_MS]
    assert newest(log) == (0, NOW_MS)


def test_create_time_is_answered_with_no_append_time() -> None:
    assert append(open_log(MemoryDisk()), "a").log_append_time_ms == -1


def test_a_leader_of_an_earlier_epoch_is_fenced() -> None:
    log = open_log(MemoryDisk())
    append(log, "a", epoch=4)
    assert refused(log, batch_of("b"), epoch=3).error_code is ErrorCode.FENCED_LEADER_EPOCH


def test_a_retried_batch_is_answered_with_its_first_offsets_and_not_written_again() -> None:
    log = open_log(MemoryDisk())
    append(log, "a")
    batch = build_batch([Record(0, 0, None, b"b")] * 2, producer_id=9, producer_epoch=0, base_sequence=0)
    log.append_as_leader(batch, EPOCH, NOW_MS, run_now)
    again = log.append_as_leader(batch, EPOCH, NOW_MS, run_now)
    assert (again.duplicate, again.base_offset, again.last_offset) == (True, 1, 2)
    assert read_all(log) == ["a", "b", "b"]


def test_a_retried_batch_has_the_append_time_of_the_first_time() -> None:
    log = open_log(MemoryDisk(), TopicConfig(message_timestamp_type="LogAppendTime"))
    batch = build_batch([Record(0, 0, None, b"a")], producer_id=9, producer_epoch=0, base_sequence=0)
    log.append_as_leader(batch, EPOCH, NOW_MS, run_now)
    assert log.append_as_leader(batch, EPOCH, NOW_MS + 500, run_now).log_append_time_ms == NOW_MS


def test_a_gap_in_a_producers_sequence_is_refused() -> None:
    log = open_log(MemoryDisk())
    for sequence in (0, 1):
        log.append_as_leader(
            build_batch([Record(0, 0, None, None)], producer_id=9, producer_epoch=0, base_sequence=sequence),
            EPOCH,
            NOW_MS,
            run_now,
        )
    gap = build_batch([Record(0, 0, None, None)], producer_id=9, producer_epoch=0, base_sequence=3)
    assert refused(log, gap).error_code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


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
    log = open_log(MemoryDisk(), TopicConfig(segment_bytes=1000, index_interval_bytes=100))
    for number in range(60):
        append(log, *(f"{number}/{index}" for index in range(number % 4 + 1)))
    assert read_all(log, bytes_max) == [f"{number}/{index}" for number in range(60) for index in range(number % 4 + 1)]
    for offset in range(log.log_end_offset):
        header, batch = split(log.read(Offset(offset), 1, log.log_end_offset))[0]
        assert header.base_offset <= offset <= header.last_offset
        validate(batch)


@pytest.mark.parametrize("number", [EMFILE, ENFILE, ENOMEM])
def test_a_read_without_a_free_file_is_repeated_later(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    log = open_log(disk, TopicConfig(segment_bytes=1000, index_interval_bytes=100))
    for index in range(60):
        append(log, str(index))

    def refuse(path: str) -> bytes:
        raise OSError(number, f"no file for {path}")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "read_file", refuse)
        with pytest.raises(Refusal, match="no files to open") as refusal:
            read_all(log)
    assert (refusal.value.error_code, log.failure) == (ErrorCode.KAFKA_STORAGE_ERROR, None)
    append(log, "60")
    assert read_all(log) == [str(index) for index in range(61)]


def test_a_corrupt_header_is_corruption_when_it_is_read() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a")
    append(log, "b")
    disk._files[f"{DIRECTORY}/{0:020d}.log"].data[16] = 9
    with pytest.raises(Corruption, match="at byte 0"):
        log.read(Offset(1), 100, Offset(2))


def test_timestamps_are_looked_up_to_the_record() -> None:
    log = open_log(MemoryDisk(), SMALL_SEGMENTS)
    assert offset_at(log, 0) is None
    assert newest(log) is None
    for start in (1000, 5000, 3000, 9000, 7000):
        append(log, "a", "b", "c", timestamp_ms=start)
    assert offset_at(log, 0) == (0, 1000)
    assert offset_at(log, 1002) == (2, 1002)
    assert offset_at(log, 1003) == (3, 5000)
    assert offset_at(log, 5002) == (5, 5002)
    assert offset_at(log, 5003) == (9, 9000)
    assert offset_at(log, 9003) is None
    assert newest(log) == (11, 9002)
    log.truncate_to(Offset(9))
    assert newest(log) == (5, 5002)


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
