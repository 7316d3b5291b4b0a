"""Loads a shard: replays the last record of each key in its partition's log, a piece at a time in a thread.

The log is read from its start to its end at the beginning of the load. A record that cannot be decoded is skipped,
because the rest of the log is worth more than it; the result says how many were skipped, and why the first one was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

import structlog

from kraft.coordinator.shard import ShardKind
from kraft.log.format.control_record import MarkerType, marker_in
from kraft.log.format.record_batch import BatchHeader, decode_batch, split
from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.model.ids import Offset
from kraft.server.loop.backlog import Backlog
from kraft.server.loop.threads import in_thread
from kraft.server.replica.partition import Partition

log = structlog.get_logger()

Replicated = TypeVar("Replicated")

PROGRESS_INTERVAL_S: Final = 5.0
"""Interval of the log events of a long load."""

REPLAYED_AT_ONCE: Final = 5_000
"""Records replayed between looks at whether this broker still leads."""

READ_RETRY_S: Final = 1.0
"""Pause after a failed read. Usually the replica or its log directory goes offline then, which ends the load."""


class Replayed(NamedTuple, Generic[Replicated]):
    """The state after a part of the log."""

    replicated: Replicated
    records: int = 0
    skipped: int = 0
    reason: str = ""
    """Why the first record was skipped."""

    def without(self, records: int, reason: str) -> Replayed[Replicated]:
        """Return the same state after records that were skipped."""
        return self._replace(skipped=self.skipped + records, reason=self.reason or reason)


async def load(
    partition: Partition,
    kind: ShardKind[Replicated, Any, Any, Any],
    read_bytes_max: int,
    executor: Executor,
    backlog: Backlog,
) -> tuple[Replayed[Replicated], Offset]:
    """Return the replay of the log, and the offset at which it ends. The caller cancels it when the role ends.

    The shards that share a `backlog` read one after the other: a broker that starts loads all of its shards at once.
    """
    loop = asyncio.get_running_loop()
    logged_s = loop.time()
    position, end = partition.log.log_start_offset, partition.log.log_end_offset
    newest = Newest()
    while position < end:
        await backlog.turn()
        batches = split(await _read(partition, position, end, read_bytes_max))
        await in_thread(executor, newest.add, batches)
        # Without a batch, compaction has removed the last records.
        position = batches[-1][0].next_offset if batches else end
        if loop.time() - logged_s >= PROGRESS_INTERVAL_S:
            logged_s = loop.time()
            log.info("coordinator loading", partition=str(partition.topic_partition), offset=position, end=end)
    replayed = Replayed(kind.shard.empty(), skipped=newest.skipped, reason=newest.reason)
    records = iter(await in_thread(executor, newest.in_order))
    while piece := list(islice(records, REPLAYED_AT_ONCE)):
        replayed = await in_thread(executor, replay, kind, piece, replayed)
    return replayed, end


async def _read(partition: Partition, position: Offset, end: Offset, bytes_max: int) -> bytes:
    while True:
        try:
            # Records may have been deleted from the front meanwhile.
            start = max(position, partition.log.log_start_offset)
            return partition.replica_log.read(start, bytes_max, end, at_least_one=True)
        except Refusal as refusal:
            if refusal.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                return b""
            log.warning("coordinator load delayed", partition=str(partition.topic_partition), reason=refusal.message)
            await asyncio.sleep(READ_RETRY_S)


class _Last(NamedTuple):
    """The last record with some key."""

    offset: int
    value: bytes | None


class LoadedRecord(NamedTuple):
    """A record that the state depends on."""

    offset: int
    key: bytes | None
    value: bytes | None
    producer_id: int | None = None
    """The producer whose transaction it is part of, if that has not ended."""


class Newest:
    """The last record of each key. The state is the same as after all records: compaction keeps no others, and in a log
    that was not compacted for long most records are followed by others of their key.

    A record of a transaction waits for the marker. After a commit it counts where it is in the log; the last records
    with each key of transactions that have not ended are kept beside the others.
    """

    def __init__(self) -> None:
        self._last: dict[bytes | None, _Last] = {}
        self._open: dict[int, dict[bytes | None, _Last]] = {}
        """By the id of the producer whose transaction has not ended."""
        self._deleted: dict[bytes | None, int] = {}
        """Offset of the last tombstone of a key, which deletes what open transactions have written before."""
        self.skipped = 0
        self.reason = ""
        """Why the first record was skipped."""

    def add(self, batches: list[tuple[BatchHeader, memoryview]]) -> None:
        """Add the records of batches. Runs in a thread."""
        for header, batch in batches:
            if header.is_control:
                self._end_transaction(header, batch)
                continue
            try:
                records = decode_batch(batch)
            except KraftError as error:
                self._skip(header.record_count, str(error))
                continue
            last = self._open.setdefault(header.producer_id, {}) if header.is_transactional else self._last
            for record in records:
                last.pop(record.key, None)
                last[record.key] = _Last(record.offset, record.value)
                if record.value is None and self._open:
                    self._deleted[record.key] = record.offset

    def _end_transaction(self, header: BatchHeader, batch: memoryview) -> None:
        marker = marker_in(header, batch)
        if marker is None:
            return
        ended = self._open.pop(header.producer_id, {})
        if marker.type is MarkerType.COMMIT:
            for key, record in ended.items():
                if key not in self._last or self._last[key].offset < record.offset:
                    self._last[key] = record

    def in_order(self) -> list[LoadedRecord]:
        """Return the records in the order of the log. Runs in a thread."""
        records = [LoadedRecord(offset, key, value) for key, (offset, value) in self._last.items()]
        for producer_id, last in self._open.items():
            records += (
                LoadedRecord(offset, key, value, producer_id)
                for key, (offset, value) in last.items()
                if self._deleted.get(key, offset) <= offset
            )
        # Nearly sorted: only the records of transactions are not in order.
        records.sort(key=itemgetter(0))
        return records

    def _skip(self, records: int, reason: str) -> None:
        self.skipped += records
        self.reason = self.reason or reason


def replay(
    kind: ShardKind[Replicated, Any, Any, Any], records: Sequence[LoadedRecord], replayed: Replayed[Replicated]
) -> Replayed[Replicated]:
    """Replay records. Runs in a thread."""
    for each in records:
        try:
            record = kind.decode(each.key, each.value)
        except KraftError as error:
            replayed = replayed.without(1, str(error))
            continue
        if record is None:
            replayed = replayed.without(1, "its type or version is not known")
            continue
        replicated = (
            kind.shard.replay(replayed.replicated, record)
            if each.producer_id is None
            else kind.shard.replay_transactional(replayed.replicated, each.producer_id, record)
        )
        replayed = replayed._replace(replicated=replicated, records=replayed.records + 1)
    return replayed
