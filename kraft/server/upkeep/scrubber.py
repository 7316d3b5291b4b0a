"""Reads every batch of every log from time to time, so that rot is found while other replicas still have the records.

Only what is durable and no longer changes is read: closed segments, and the active one up to its last sync. A segment
whose file vanished is damaged as well. The log goes on meanwhile, so a finding counts only when the segment was the
same before and after, and only the second time. None counts in the middle of a change of the log: a thread may have
swapped or cut its files, and the log does not know yet.
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
from kraft.log.segment.facts import SegmentFacts
from kraft.log.segment.paths import DELETED_SUFFIX
from kraft.log.verification.scrub import Expected, ScrubbedSegment, missing_segment, scrub_segment
from kraft.model.errors import Corruption
from kraft.model.ids import Offset
from kraft.server.loop.threads import in_thread
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.server.upkeep.throttle import Stopped, Throttle

log = structlog.get_logger()

FIRST_AFTER_S: Final = 60.0
"""A node that has just started has more urgent things to read; one that is often restarted is scrubbed all the same."""


@dataclass(slots=True, kw_only=True)
class ScrubTally:
    """Of one time through all logs."""

    segments: int = 0
    batches: int = 0
    bytes: int = 0
    corrupt: int = 0


class LogScrubber:
    def __init__(
        self,
        *,
        partitions: Partitions,
        disk: Disk,
        executor: Executor,
        interval_ms: int,
        throttle: Throttle,
        on_corruption: Callable[[Partition, Corruption], None],
    ) -> None:
        """`interval_ms` from the beginning of one pass to that of the next; 0: never."""
        self._partitions = partitions
        self._disk = disk
        self._executor = executor
        self._interval_s = interval_ms / 1_000
        self._throttle = throttle
        self._on_corruption = on_corruption

    async def run(self) -> None:
        """Scrubs until cancelled. Whoever cancels it stops the throttle, too, so that the thread ends."""
        if self._interval_s == 0:
            return
        loop = asyncio.get_running_loop()
        await asyncio.sleep(min(FIRST_AFTER_S, self._interval_s))
        while True:
            began_s = loop.time()
            with suppress(Stopped):
                tally = await self.scrub_all()
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
        """Once through all logs. Raises Stopped."""
        tally = ScrubTally()
        for partition in self._partitions:
            await self._scrub_log(partition, tally)
        return tally

    async def _scrub_log(self, partition: Partition, tally: ScrubTally) -> None:
        if not partition.is_open:
            return
        for base_offset in [segment.base_offset for segment in partition.log.segments()]:
            # What is known of the segment is looked up anew: the ones before took their time.
            found = await self._scrub_segment(partition, base_offset)
            if found is None:
                continue
            tally.segments += 1
            tally.batches += found.batches
            tally.bytes += found.size_bytes
            if found.problems and await self._is_so_again(partition, base_offset, found):
                tally.corrupt += 1
                self._on_corruption(partition, found.problems[0])
                return

    async def _is_so_again(self, partition: Partition, base_offset: Offset, first: ScrubbedSegment) -> bool:
        """What was cut back and written anew while it was read looks like rot, but only once."""
        again = await self._scrub_segment(partition, base_offset)
        if again is None or not again.problems:
            return False
        return _first_finding(first) == _first_finding(again)

    async def _scrub_segment(self, partition: Partition, base_offset: Offset) -> ScrubbedSegment | None:
        """None for a segment that is gone, or was changed while it was read, or may have been."""
        before, was_changing = _facts(partition, base_offset), partition.is_changing
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
                partition.storage_failed(f"{before.path} cannot be read: {error}")
            return None
        if found is None or not _is_same(before, _facts(partition, base_offset), is_active):
            return None
        is_settled = not was_changing and not partition.is_changing
        return found if is_settled or not found.problems else None

    def _read(self, partition: Partition, path: str, expected: Expected) -> ScrubbedSegment | None:
        """None where nothing is to be concluded."""

        def on_read(size: int) -> None:
            self._throttle.pass_bytes(size)
            if not partition.is_open:
                raise FileNotFoundError(path)

        try:
            return scrub_segment(self._disk, path, expected, read_bytes=on_read)
        except FileNotFoundError:
            # The log's readers have it open and would never miss it. What the log itself lets go it renames first.
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
