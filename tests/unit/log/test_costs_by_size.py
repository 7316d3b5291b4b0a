"""Disk reads of look-ups, reads and appends do not grow with the log: counted, not timed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.ids import Offset
from tests.support.disks.memory_disk import MemoryDisk, MemoryFile
from tests.support.log.log_building import append, offset_at, open_log

MANY_SEGMENTS = TopicConfig(segment_bytes=8_192, index_interval_bytes=512)
ONE_SEGMENT = TopicConfig(segment_bytes=8 << 20, index_interval_bytes=512)
SMALL, LARGE = 400, 20_000
"""Records, each a batch of its own; of many segments one holds about a hundred."""


class CountingFile(MemoryFile):
    def read_at(self, position: int, size: int) -> bytes:
        data = super().read_at(position, size)
        disk = self._disk
        assert isinstance(disk, CountingDisk)
        disk.reads += 1
        disk.bytes_read += len(data)
        return data


class CountingDisk(MemoryDisk):
    def __init__(self) -> None:
        super().__init__()
        self.reads = self.bytes_read = 0

    def open(self, path: str, create: bool) -> MemoryFile:
        opened = super().open(path, create)
        return CountingFile(self, opened._content)

    def read_file(self, path: str) -> bytes:
        data = super().read_file(path)
        self.reads += 1
        self.bytes_read += len(data)
        return data


def log_of(disk: CountingDisk, records: int, config: TopicConfig) -> PartitionLog:
    """Reopen the log and read the indexes of every segment, which a log does once."""
    log = open_log(disk, config)
    for number in range(records):
        append(log, f"{number:08}", timestamp_ms=number)
    log.close()
    log = open_log(disk, config, clean_shutdown=True)
    for number in range(0, records, 50):
        read(log, number)
    return log


def read(log: PartitionLog, number: int) -> None:
    assert log.read(Offset(number), 1, log.log_end_offset)


def find_time(log: PartitionLog, number: int) -> None:
    assert offset_at(log, number) == (number, number)


def append_one(log: PartitionLog, number: int) -> None:
    append(log, "more", timestamp_ms=log.log_end_offset)


def most(records: int, config: TopicConfig, work: Callable[[PartitionLog, int], None]) -> tuple[int, int]:
    """Number of reads, and bytes read, of the most expensive of many operations."""
    disk = CountingDisk()
    log = log_of(disk, records, config)
    chance, reads, bytes_read = Random(1), [], []
    for _ in range(300):
        disk.reads = disk.bytes_read = 0
        work(log, chance.randrange(records))
        reads.append(disk.reads)
        bytes_read.append(disk.bytes_read)
    return max(reads), max(bytes_read)


@pytest.mark.parametrize("config", [MANY_SEGMENTS, ONE_SEGMENT], ids=["many segments", "one segment"])
@pytest.mark.parametrize("work", [read, find_time, append_one])
def test_a_log_of_fifty_times_the_size_takes_no_more_reads_and_bytes(
    work: Callable[[PartitionLog, int], None], config: TopicConfig
) -> None:
    small_reads, small_bytes = most(SMALL, config, work)
    large_reads, large_bytes = most(LARGE, config, work)
    assert large_reads <= small_reads
    # A stretch between two entries of the index is not always of the same size to the byte.
    assert large_bytes <= small_bytes + 512
