"""Reads every batch of every log periodically, to find corruption while other replicas still have the records.

Only durable bytes that no longer change are read: closed segments, and the active one up to its last sync. A segment
whose file is missing is corrupt as well. The log is in use meanwhile, so a finding counts only if the segment was the
same before and after the read, and only if a second read confirms it. No finding counts during a change of the log: a
thread may have swapped or truncated its files before the log's state shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from kraft.log.disk import Disk
from kraft.log.integrity.scrub import Expected, ScrubbedSegment, missing_segment, scrub_segment
from kraft.log.segment.paths import DELETED_SUFFIX
from kraft.log.segment.segment_facts import SegmentFacts
from kraft.model.errors import Corruption
from kraft.model.ids import Offset
from kraft.server.loop.threads import in_thread
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.server.upkeep.counts import UpkeepCounts, UpkeepTask
from kraft.server.upkeep.throttle import Stopped, Throttle

log = structlog.get_logger()

FIRST_AFTER_S: Final = 60.0
"""Delay of the first scrub, because a starting node has more urgent reads; short, for nodes that restart often."""


@dataclass(slots=True, kw_only=True)
class ScrubTally:
    """Counts of one pass over all logs."""

    segments: int = 0
    batches: int = 0
    bytes: int = 0
    corrupt: int = 0


class LogScrubber:
    """Scrubs all logs periodically until `run` is cancelled."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        disk: Disk,
        executor: Executor,
        interval_ms: int,
        throttle: Throttle,
        on_corruption: Callable[[Partition, Corruption], None],
        counts: UpkeepCounts | None = None,
    ) -> None:
        """`interval_ms` is the time from the start of one pass to that of the next; 0 means no scrub."""
        self._partitions = partitions
        self._disk = disk
        self._executor = executor
        self._interval_s = interval_ms / 1_000
        self._throttle = throttle
        self._on_corruption = on_corruption
        self._counts = counts or UpkeepCounts()

    async def run(self) -> None:
        """Scrub until cancelled. The caller also stops the throttle, so that the thread ends."""
        if self._interval_s == 0:
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(min(FIRST_AFTER_S, self._interval_s))
        while True:
            began_s = loop.time()
            with suppress(Stopped):
                tally = await self.scrub_all()
                self._counts.round_ended(UpkeepTask.SCRUB, loop.time())
                log.info(
                    "logs scrubbed",
                    segments=tally.segments,
                    batches=tally.batches,
                    bytes=tally.bytes,
                    corrupt=tally.corrupt,
                    took_s=round(loop.time() - began_s, 1),
                )
            await asyncio.sleep(max(0.0, began_s + self._interval_s - loop.time()))

    async def scrub_all(self) -> ScrubTally:
        """Scrub all logs once. Raises Stopped."""
        tally, counts = ScrubTally(), self._counts
        partitions = list(self._partitions)
        for number, partition in enumerate(partitions):
            counts.scrub_progress = number / len(partitions)
            await self._scrub_log(partition, tally)
        counts.scrub_progress = 1.0
        return tally

    async def _scrub_log(self, partition: Partition, tally: ScrubTally) -> None:
        if not partition.is_open:
            return
        for base_offset in [segment.base_offset for segment in partition.log.segments()]:
            # The segment's facts are looked up again: it may have changed while earlier ones were read.
            found = await self._scrub_segment(partition, base_offset)
            if found is None:
                continue
            tally.segments += 1
            tally.batches += found.batches
            tally.bytes += found.size_bytes
            self._counts.scrubbed_segments += 1
            self._counts.scrubbed_bytes += found.size_bytes
            if found.problems and await self._is_confirmed(partition, base_offset, found):
                tally.corrupt += 1
                self._counts.scrubbed_corrupt += 1
                self._on_corruption(partition, found.problems[0])
                return

    async def _is_confirmed(self, partition: Partition, base_offset: Offset, first: ScrubbedSegment) -> bool:
        """Return whether a second read finds the same; a truncation and new records during the first look corrupt."""
        again = await self._scrub_segment(partition, base_offset)
        if again is None or not again.problems:
            return False
        return _first_finding(first) == _first_finding(again)

    async def _scrub_segment(self, partition: Partition, base_offset: Offset) -> ScrubbedSegment | None:
        """Scrub one segment. Return None if it does not exist any more, or may have changed during the read."""
        before, was_changing = _facts(partition, base_offset), partition.replica_log.is_changing
        if before is None:
            return None
        is_active = before == partition.log.segments()[-1]
        end_offset = partition.log.synced_end_offset if is_active else before.end_offset
        expected = Expected(
            base_offset=base_offset,
            end_offset=end_offset,
            stops_at_end=is_active,
            sparse=partition.log.is_sparse,
            epochs=partition.log.epoch_cache,
        )
        try:
            found = await in_thread(self._executor, lambda: self._read(partition, before.path, expected))
        except OSError as error:
            if _is_same(before, _facts(partition, base_offset), is_active):
                partition.replica_log.storage_failed(f"{before.path} cannot be read: {error}")
            return None
        if found is None or not _is_same(before, _facts(partition, base_offset), is_active):
            return None
        is_settled = not was_changing and not partition.replica_log.is_changing
        return found if is_settled or not found.problems else None

    def _read(self, partition: Partition, path: str, expected: Expected) -> ScrubbedSegment | None:
        """Read the segment's file. Return None if the log itself removed it."""

        def on_read(size: int) -> None:
            self._throttle.pass_bytes(size)
            if not partition.is_open:
                raise FileNotFoundError(path)

        try:
            return scrub_segment(self._disk, path, expected, read_bytes=on_read)
        except FileNotFoundError:
            # The log reads through an open file and would not notice. A file that the log removes is renamed first.
            return None if self._disk.exists(path + DELETED_SUFFIX) else missing_segment(path, expected)


def _facts(partition: Partition, base_offset: Offset) -> SegmentFacts | None:
    if not partition.is_open:
        return None
    return next((segment for segment in partition.log.segments() if segment.base_offset == base_offset), None)


def _is_same(before: SegmentFacts, after: SegmentFacts | None, is_active: bool) -> bool:
    if after is None:
        return False
    # The active segment may grow, and may be closed.
    return before == after or (is_active and before.path == after.path and before.size_bytes <= after.size_bytes)


def _first_finding(found: ScrubbedSegment) -> tuple[int, str]:
    return found.problems[0].position, found.problems[0].reason
