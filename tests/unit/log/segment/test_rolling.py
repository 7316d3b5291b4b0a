from __future__ import annotations

from pathlib import Path

from kraft.log.change import run_now
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import LeaderEpoch
from kraft.runtime.disk import RealDisk
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.log.log_building import (
    NOW_MS,
    ORDERS,
    append,
    batch_of,
    open_log,
    read_all,
)


def open_log_at(directory: Path, config: TopicConfig) -> PartitionLog:
    return PartitionLog.open(RealDisk(), f"{directory}/orders-0", config, ORDERS)


def append_keyed(log: PartitionLog, timestamp_ms: int) -> None:
    log.append_as_leader(build_batch([Record(0, timestamp_ms, b"key", b"v")]), LeaderEpoch(0), NOW_MS, run_now)


def test_a_segment_is_closed_when_its_first_record_is_old_by_the_clock_of_the_records() -> None:
    log = open_log(MemoryDisk(), TopicConfig(segment_ms=1_000))
    for timestamp_ms in (5_000, 5_500, 6_000, 6_001, 9_000):
        append(log, "v", timestamp_ms=timestamp_ms)
    assert [segment.base_offset for segment in log.segments()] == [0, 3, 4]
    assert [segment.max_timestamp_ms for segment in log.segments()] == [6_000, 6_001, 9_000]


def test_the_batches_of_one_append_begin_a_segment_unless_they_all_fit() -> None:
    batch = batch_of("v")
    log = open_log(MemoryDisk(), TopicConfig(segment_bytes=4 * len(batch)))
    for count in (2, 2, 2, 3):
        log.append_as_leader(batch * count, LeaderEpoch(0), NOW_MS, run_now)
    assert [segment.base_offset for segment in log.segments()] == [0, 4, 6]


def test_the_next_append_rolls_a_compacted_log_whose_first_record_waits_longer_than_the_compaction_lag() -> None:
    log = open_log(MemoryDisk(), TopicConfig(cleanup_policy=("compact", "delete"), max_compaction_lag_ms=1_000))
    for timestamp_ms in (5_000, 5_500, 6_000, 6_001, 9_000):
        append_keyed(log, timestamp_ms)
    assert [segment.base_offset for segment in log.segments()] == [0, 3, 4]


def test_the_compaction_lag_rolls_no_log_that_is_not_compacted_and_lengthens_no_segment() -> None:
    kept_by_age = open_log(MemoryDisk(), TopicConfig(max_compaction_lag_ms=1_000))
    rolled_sooner = open_log(
        MemoryDisk(), TopicConfig(cleanup_policy=("compact", "delete"), max_compaction_lag_ms=9_000, segment_ms=1_000)
    )
    for timestamp_ms in (5_000, 6_001):
        append_keyed(kept_by_age, timestamp_ms)
        append_keyed(rolled_sooner, timestamp_ms)
    assert [segment.base_offset for segment in kept_by_age.segments()] == [0]
    assert [segment.base_offset for segment in rolled_sooner.segments()] == [0, 1]


def test_jitter_above_the_compaction_lag_does_not_roll_before_records_of_the_same_time() -> None:
    config = TopicConfig(cleanup_policy=("compact", "delete"), max_compaction_lag_ms=10, segment_jitter_ms=10_000)
    log = open_log(MemoryDisk(), config)
    for _ in range(5):
        append_keyed(log, 5_000)
    assert [segment.base_offset for segment in log.segments()] == [0]


def test_a_batch_without_a_time_never_rolls_by_age() -> None:
    log = open_log(MemoryDisk(), TopicConfig(cleanup_policy=("compact", "delete"), max_compaction_lag_ms=1_000))
    for timestamp_ms in (5_000, -1):
        append_keyed(log, timestamp_ms)
    assert [segment.base_offset for segment in log.segments()] == [0]


def test_a_quiet_log_is_rolled_when_somebody_looks_at_the_clock() -> None:
    log = open_log(MemoryDisk(), TopicConfig(segment_ms=1_000))
    append(log, "v", timestamp_ms=5_000)
    assert not run_now(log.rolling_if_due(6_000))
    assert run_now(log.rolling_if_due(6_001))
    assert not run_now(log.rolling_if_due(99_000)), "an empty segment has no age"
    assert [segment.base_offset for segment in log.segments()] == [0, 1]


def test_jitter_closes_segments_earlier_and_never_later() -> None:
    log = open_log(MemoryDisk(), TopicConfig(segment_ms=1_000, segment_jitter_ms=900))
    append(log, "v", timestamp_ms=5_000)
    due = next(now_ms for now_ms in range(5_000, 7_000) if run_now(log.rolling_if_due(now_ms)))
    assert 5_100 <= due <= 6_001


def test_a_segment_is_closed_when_its_index_is_full() -> None:
    log = open_log(MemoryDisk(), TopicConfig(segment_index_bytes=24, index_interval_bytes=0))
    for number in range(9):
        append(log, f"{number}", timestamp_ms=1_000 + number)
    assert [segment.base_offset for segment in log.segments()] == [0, 3, 6]
    assert read_all(log) == [f"{number}" for number in range(9)]


def test_space_is_reserved_for_a_new_segment_and_given_back_behind_its_records(tmp_path: Path) -> None:
    config = TopicConfig(segment_bytes=1 << 20, preallocate=True)
    log = open_log_at(tmp_path, config)
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    append(log, "v")
    assert path.stat().st_size < 100, "what a reader sees is not affected"
    assert path.stat().st_blocks * 512 >= 1 << 20
    run_now(log.rolling())
    assert path.stat().st_blocks * 512 < 1 << 20
