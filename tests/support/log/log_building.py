"""Helpers for the tests of the partition log: small logs with recognisable records."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from kraft.log.append_work import AppendMustWait, AppendResult, AwaitedChange, ProducedRecords
from kraft.log.change import run_now
from kraft.log.disk import Disk
from kraft.log.format.record_batch import build_batch, iter_records, split, with_assigned_offsets
from kraft.log.format.record_codec import Record
from kraft.log.partition_log import PartitionLog
from kraft.log.segment.timestamp_lookup import TimestampLookup
from kraft.log.topic_config import TopicConfig
from kraft.model.errors import Refusal
from kraft.model.ids import LeaderEpoch, Offset, TopicPartition

DIRECTORY = "data/orders-0"
ORDERS = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000
EPOCH = LeaderEpoch(0)
SMALL_SEGMENTS = TopicConfig(segment_bytes=200, index_interval_bytes=100)


def open_log(disk: Disk, config: TopicConfig | None = None, clean_shutdown: bool = False) -> PartitionLog:
    return PartitionLog.open(disk, DIRECTORY, config or TopicConfig(), ORDERS, clean_shutdown)


def batch_of(*values: str, timestamp_ms: int = 1000) -> bytes:
    return build_batch([Record(0, timestamp_ms + index, None, value.encode()) for index, value in enumerate(values)])


def append(log: PartitionLog, *values: str, epoch: int = 0, timestamp_ms: int = 1000) -> AppendResult:
    """One batch with a record for each value."""
    return log.append_as_leader(batch_of(*values, timestamp_ms=timestamp_ms), LeaderEpoch(epoch), NOW_MS, run_now)


def roll(log: PartitionLog) -> None:
    run_now(log.rolling())


def append_with_work(
    log: PartitionLog, records: ProducedRecords, epoch: int = 0, now_ms: int = NOW_MS
) -> tuple[AppendResult, int]:
    """Return the result, and how often work had to run first."""
    works = 0
    while True:
        try:
            return log.append_as_leader(records, LeaderEpoch(epoch), now_ms, run_now), works
        except AppendMustWait as wait:
            work = wait.work
        works += 1
        assert not isinstance(work, AwaitedChange), "the log has made its changes"
        records = work.run(records)


def stored(*values: str, offset: int, epoch: int, timestamp_ms: int = 1000) -> bytes:
    """Return one batch as in the log of a leader of that epoch."""
    produced = memoryview(batch_of(*values, timestamp_ms=timestamp_ms))
    return b"".join(with_assigned_offsets(produced, Offset(offset), LeaderEpoch(epoch), None))


def refused(log: PartitionLog, records: bytes, epoch: int = 0) -> Refusal:
    """Return the refusal of an append that must not change the log."""
    end = log.log_end_offset
    with pytest.raises(Refusal) as refusal:
        append_with_work(log, records, epoch)
    assert log.log_end_offset == end
    return refusal.value


def sync(log: PartitionLog) -> None:
    ticket = log.prepare_sync()
    ticket.run()
    log.complete_sync(ticket, run_now)


def looked_up(lookup: TimestampLookup) -> tuple[int, int] | None:
    """Run every step of a look-up; return offset and timestamp of the result."""
    while True:
        try:
            next(lookup.steps)
        except StopIteration as end:
            found: tuple[int, int] | None = end.value
            return found


def offset_at(log: PartitionLog, timestamp_ms: int) -> tuple[int, int] | None:
    """Offset and timestamp of the first record at or after that time."""
    return looked_up(log.prepare_lookup(timestamp_ms))


def newest(log: PartitionLog) -> tuple[int, int] | None:
    """Offset and timestamp of the first record with the largest timestamp."""
    return looked_up(log.prepare_newest_lookup())


def read_records(log: PartitionLog, bytes_max: int = 1 << 20) -> list[Record]:
    """Return every record of the log; offsets ascend."""
    records: list[Record] = []
    offset = log.log_start_offset
    while batches := log.read(offset, bytes_max, log.log_end_offset):
        records += [record for record in iter_records(batches) if record.offset >= offset]
        # A batch may be empty: compaction keeps it for what its header says of its producer.
        offset = split(batches)[-1][0].next_offset
    return records


def read_all(log: PartitionLog, bytes_max: int = 1 << 20) -> list[str]:
    """Return the values of all records of a log without gaps in its offsets."""
    records = read_records(log, bytes_max)
    assert [record.offset for record in records] == list(range(log.log_start_offset, log.log_end_offset))
    return [(record.value or b"").decode() for record in records]


def patched(batch: bytes, position: int, patch: bytes) -> bytes:
    changed = bytearray(batch)
    changed[position : position + len(patch)] = patch
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)
