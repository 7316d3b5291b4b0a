from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from kraft.log.change import run_now
from kraft.log.disk import Disk
from kraft.log.format.compression import PIECE_BYTES, Codec, compress
from kraft.log.format.record_batch import _assemble, build_batch
from kraft.log.format.record_codec import Record, encode_records
from kraft.log.partition_log import PartitionLog
from kraft.log.segment.timestamp_lookup import HEADERS_AT_ONCE
from kraft.log.topic_config import NEVER, TopicConfig
from kraft.model.errors import Corruption
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk, MemoryFile
from tests.support.log.log_building import (
    DIRECTORY,
    EPOCH,
    NOW_MS,
    SMALL_SEGMENTS,
    append,
    looked_up,
    newest,
    offset_at,
    open_log,
)

FIRST = f"{DIRECTORY}/{0:020d}"


class ReadingDisk(MemoryDisk):
    """Notes the paths that are opened and read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def open(self, path: str, create: bool) -> MemoryFile:
        self.read.append(path)
        return super().open(path, create)

    def read_file(self, path: str) -> bytes:
        self.read.append(path)
        return super().read_file(path)


def claiming(timestamp_ms: int, *records_ms: int, codec: Codec = Codec.ZSTD) -> bytes:
    """A batch whose header claims a largest timestamp that none of its records has."""
    records = [Record(0, each, None, b"value") for each in records_ms]
    return _assemble(
        payload=compress(codec, encode_records(records, records_ms[0])),
        attributes=int(codec),
        record_count=len(records),
        base_timestamp_ms=records_ms[0],
        max_timestamp_ms=timestamp_ms,
        producer=(-1, -1, -1),
        base_offset=0,
        leader_epoch=-1,
    )


def write(log: PartitionLog, batch: bytes) -> None:
    log.append_as_leader(batch, EPOCH, NOW_MS, run_now)


def steps_of(log: PartitionLog, timestamp_ms: int) -> int:
    return sum(1 for _ in log.prepare_lookup(timestamp_ms).steps)


def reopened(disk: Disk, config: TopicConfig) -> PartitionLog:
    """Reopen the log, so that the indexes of its closed segments are only on disk."""
    return open_log(disk, config)


# --- what is found -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Codec))
def test_the_first_record_of_that_time_is_found_in_batches_of_each_codec(codec: Codec) -> None:
    log = open_log(MemoryDisk())
    values = Random(7)
    for start in (1_000, 2_000):
        write(log, build_batch([Record(0, start + at, b"k", values.randbytes(500)) for at in range(900)], codec))
    assert offset_at(log, 0) == (0, 1_000)
    assert offset_at(log, 1_899) == (899, 1_899)
    assert offset_at(log, 1_900) == (900, 2_000)
    assert offset_at(log, 2_450) == (1_350, 2_450)
    assert offset_at(log, 2_900) is None
    assert newest(log) == (1_799, 2_899)


def test_records_have_the_time_of_their_append_where_the_topic_says_so() -> None:
    log = open_log(MemoryDisk(), TopicConfig(message_timestamp_type="LogAppendTime"))
    write(log, build_batch([Record(0, 5, None, b"a"), Record(1, 9, None, b"b")], Codec.GZIP))
    assert offset_at(log, 7) == (0, NOW_MS)
    run_now(log.advancing_log_start(Offset(1)))
    assert offset_at(log, 7) == (1, NOW_MS)
    assert offset_at(log, NOW_MS + 1) is None


def test_a_header_timestamp_that_no_record_has_is_the_result_and_no_further_batch_is_decompressed() -> None:
    log = open_log(MemoryDisk())
    append(log, "a", timestamp_ms=1_000)
    for _ in range(20):
        write(log, claiming(9_000, 2_000, 2_001))
    append(log, "b", timestamp_ms=9_500)
    assert offset_at(log, 2_001) == (2, 2_001), "what a header says and a record bears out"
    assert offset_at(log, 5_000) == (1, 9_000)
    assert steps_of(log, 5_000) == 1
    assert offset_at(log, 9_001) == (41, 9_500)


def test_the_header_is_the_result_for_a_batch_that_cannot_be_decompressed() -> None:
    log = open_log(MemoryDisk())
    append(log, "a", timestamp_ms=1_000)
    broken = _assemble(
        payload=b"no gzip",
        attributes=int(Codec.GZIP),
        record_count=3,
        base_timestamp_ms=2_000,
        max_timestamp_ms=3_000,
        producer=(-1, -1, -1),
        base_offset=0,
        leader_epoch=-1,
    )
    write(log, broken)
    assert (offset_at(log, 2_500), newest(log)) == ((1, 3_000), (1, 3_000))
    run_now(log.advancing_log_start(Offset(2)))
    assert offset_at(log, 2_500) == (2, 3_000)


def test_deleted_records_at_the_start_of_a_batch_do_not_make_its_header_the_result() -> None:
    log = open_log(MemoryDisk())
    write(log, build_batch([Record(0, 5_000, None, b"a"), Record(1, 1_000, None, b"b")]))
    append(log, "c", timestamp_ms=3_000)
    append(log, "d", timestamp_ms=6_000)
    run_now(log.advancing_log_start(Offset(1)))
    assert offset_at(log, 4_000) == (3, 6_000)
    assert offset_at(log, 2_000) == (2, 3_000)
    assert newest(log) == (3, 6_000)


def test_the_newest_record_left_is_found_where_the_newest_of_the_segment_was_deleted() -> None:
    log = open_log(MemoryDisk(), SMALL_SEGMENTS)
    for timestamp_ms in (9_000, 2_000, 4_000, 3_000):
        append(log, "a" * 20, timestamp_ms=timestamp_ms)
    run_now(log.rolling())
    append(log, "b", timestamp_ms=1_000)
    assert newest(log) == (0, 9_000)
    run_now(log.advancing_log_start(Offset(1)))
    assert newest(log) == (2, 4_000)
    append(log, "c", timestamp_ms=4_000)
    assert newest(log) == (2, 4_000), "the first of equals"
    run_now(log.advancing_log_start(Offset(3)))
    assert newest(log) == (5, 4_000)
    run_now(log.advancing_log_start(Offset(6)))
    assert newest(log) is None


def test_the_first_of_equally_new_records_is_found_where_the_newest_of_its_segment_was_deleted() -> None:
    log = open_log(MemoryDisk())
    for timestamp_ms in (9_000, 4_000):
        append(log, "a", timestamp_ms=timestamp_ms)
    run_now(log.rolling())
    append(log, "b", timestamp_ms=4_000)
    run_now(log.advancing_log_start(Offset(1)))
    assert newest(log) == (1, 4_000)


def test_records_are_found_behind_segments_that_are_deleted() -> None:
    log = open_log(MemoryDisk())
    for _ in range(4):
        append(log, "a", timestamp_ms=5_000)
        run_now(log.rolling())
    run_now(log.advancing_log_start(Offset(3)))
    assert len(log.segments()) == 5, "the files are deleted later"
    assert offset_at(log, 4_000) == (3, 5_000)


def test_a_batch_that_compaction_emptied_is_not_the_result() -> None:
    log = open_log(MemoryDisk())
    emptied = _assemble(
        payload=b"",
        attributes=0,
        record_count=0,
        base_timestamp_ms=9_000,
        max_timestamp_ms=9_000,
        producer=(7, 0, 0),
        base_offset=0,
        leader_epoch=0,
        last_offset_delta=2,
    )
    log.append_as_follower(emptied)
    append(log, "b", timestamp_ms=5_000)
    assert offset_at(log, 4_000) == (3, 5_000)


def test_a_time_far_from_that_of_the_batch_is_looked_up() -> None:
    latest_ms = 2**63 - 1
    log = open_log(MemoryDisk(), TopicConfig(message_timestamp_after_max_ms=NEVER))
    write(log, claiming(latest_ms, -5))
    assert offset_at(log, latest_ms) == (0, latest_ms)


def test_records_without_a_timestamp_are_found_by_none() -> None:
    log = open_log(MemoryDisk())
    append(log, "a", timestamp_ms=-1)
    assert (offset_at(log, 0), newest(log)) == (None, (0, -1))


# --- what it costs -------------------------------------------------------------------------------------------


def test_a_batch_is_decompressed_piece_by_piece_and_only_as_far_as_needed() -> None:
    log = open_log(MemoryDisk())
    size, count = 10_000, 100 * PIECE_BYTES // 10_000
    write(log, build_batch([Record(0, 1_000 + at, None, bytes(size)) for at in range(count)], Codec.ZSTD))
    assert steps_of(log, 1_010) <= 3
    assert steps_of(log, 1_000 + count - 1) >= 100


def test_many_headers_are_read_in_many_steps() -> None:
    log = open_log(MemoryDisk(), TopicConfig(index_interval_bytes=1 << 30))
    for at in range(3 * HEADERS_AT_ONCE):
        append(log, "a", timestamp_ms=1_000 + at)
    assert steps_of(log, 1_000 + 3 * HEADERS_AT_ONCE - 1) >= 3


def test_the_indexes_lead_past_batches_that_are_older() -> None:
    disk = MemoryDisk()
    log = open_log(disk, TopicConfig(index_interval_bytes=500))
    append(log, "a", timestamp_ms=5_000)
    for _ in range(20 * HEADERS_AT_ONCE):
        append(log, "old", timestamp_ms=1_000)
    append(log, "b", timestamp_ms=9_000)
    for _ in range(HEADERS_AT_ONCE):
        append(log, "old", timestamp_ms=1_000)
    run_now(log.rolling())
    for each in (log, reopened(disk, log.config)):
        assert offset_at(each, 6_000) == (20 * HEADERS_AT_ONCE + 1, 9_000)
        assert steps_of(each, 6_000) <= 3


def test_nothing_is_read_before_the_first_step() -> None:
    disk = ReadingDisk()
    log = open_log(disk, SMALL_SEGMENTS)
    for at in range(30):
        append(log, "a", timestamp_ms=1_000 + at)
    disk.read.clear()
    lookups = log.prepare_lookup(1_005), log.prepare_newest_lookup()
    assert disk.read == []
    assert [looked_up(each) for each in lookups] == [(5, 1_005), (29, 1_029)]
    assert disk.read, "then it opens files of its own"


# --- indexes that are wrong ----------------------------------------------------------------------------------


def _indexed(disk: MemoryDisk) -> TopicConfig:
    config = TopicConfig(segment_bytes=1 << 20, index_interval_bytes=100)
    log = open_log(disk, config)
    for at in range(60):
        append(log, f"value {at}", timestamp_ms=1_000 + 10 * at)
    run_now(log.rolling())
    append(log, "last", timestamp_ms=9_000)
    log.close()
    return config


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "other"])
def test_an_index_that_is_wrong_costs_time_and_no_record(suffix: str, damage: str) -> None:
    disk = MemoryDisk()
    log = open_log(disk, _indexed(disk))
    data = disk.read_file(FIRST + suffix)
    match damage:
        case "missing":
            disk.remove(FIRST + suffix)
        case "cut":
            disk.write_file(FIRST + suffix, data[:-3])
        case "empty":
            disk.write_file(FIRST + suffix, b"")
        case _:
            disk.write_file(FIRST + suffix, bytes(each ^ 1 for each in data))
    for at in (0, 1, 30, 59):
        assert offset_at(log, 1_000 + 10 * at) == (at, 1_000 + 10 * at)
    assert newest(log) == (60, 9_000)


def test_no_flipped_bit_of_an_index_leads_past_a_record() -> None:
    disk = MemoryDisk()
    log = open_log(disk, _indexed(disk))
    random = Random(3)
    for suffix in (".index", ".timeindex"):
        data = disk.read_file(FIRST + suffix)
        for _ in range(150):
            flipped = bytearray(data)
            flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
            disk.write_file(FIRST + suffix, bytes(flipped))
            at = random.randrange(60)
            assert offset_at(log, 995 + 10 * at) == (at, 1_000 + 10 * at)
        disk.write_file(FIRST + suffix, data)


def test_a_wrong_checksum_is_corruption() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, "a", timestamp_ms=1_000)
    disk._files[f"{FIRST}.log"].data[-2] ^= 1
    with pytest.raises(Corruption, match="checksum"):
        offset_at(log, 1_000)


# --- while the log goes on -----------------------------------------------------------------------------------


def test_what_is_appended_meanwhile_is_not_looked_at() -> None:
    log = open_log(MemoryDisk())
    append(log, "a", timestamp_ms=1_000)
    late, of_all = log.prepare_lookup(5_000), log.prepare_newest_lookup()
    append(log, "b", timestamp_ms=6_000)
    assert looked_up(late) is None
    assert looked_up(of_all) == (0, 1_000)
    assert log.still_has(of_all.segments)


def test_bytes_that_are_being_appended_are_not_looked_at() -> None:
    """The loop may be in the middle of a write: half a batch would look corrupt."""
    disk = MemoryDisk()
    log = open_log(disk)
    for timestamp_ms in (9_000, 1_000):
        append(log, "a", timestamp_ms=timestamp_ms)
    run_now(log.advancing_log_start(Offset(1)))
    late, of_all = log.prepare_lookup(5_000), log.prepare_newest_lookup()
    disk._files[f"{FIRST}.log"].data += b"half a batch"
    assert looked_up(late) is None
    assert looked_up(of_all) == (1, 1_000)


def test_a_segment_that_was_dropped_before_it_was_opened_is_gone_and_that_is_noticed() -> None:
    disk = MemoryDisk()
    log = open_log(disk, replace(SMALL_SEGMENTS, retention_bytes=100))
    for at in range(12):
        append(log, "a" * 20, timestamp_ms=1_000 + at)
    lookup = log.prepare_lookup(1_000)
    assert log.still_has(lookup.segments)
    for path in run_now(log.applying_retention(NOW_MS, log.log_end_offset)):
        disk.remove(path)
    with pytest.raises(FileNotFoundError):
        looked_up(lookup)
    assert not log.still_has(lookup.segments)
