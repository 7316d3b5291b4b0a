from __future__ import annotations

from pathlib import Path

from kraft.log.log_config import LogConfig
from kraft.log.partition_log import PartitionLog
from kraft.runtime.disk import RealDisk
from tests.unit.log.log_building import (
    ORDERS,
    append,
    open_log,
    read_all,
)
from tests.unit.log.memory_disk import MemoryDisk


def open_log_at(directory: Path, config: LogConfig) -> PartitionLog:
    return PartitionLog.open(RealDisk(), f"{directory}/orders-0", config, ORDERS)


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
