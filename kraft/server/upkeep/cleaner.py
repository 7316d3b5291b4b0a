"""Compacts logs in separate threads: the dirtiest first, below a rate limit, and each log in one thread at a time.

A thread only reads the log and writes new files beside it. The loop replaces the old segments by them if the segments
are still those that were read; otherwise the new files are removed, and the next attempt starts over. Corruption, too,
counts only if the segments did not change: a truncation may cut off what is just being read, and new records follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from errno import ENOSPC
from typing import Final

import structlog
from msgspec import Struct

from kraft.log.cleaning.cleaned_segments import CleaningResult, close_cleaned, discard, open_cleaned
from kraft.log.cleaning.cleaning_plan import CleaningPlan, plan_cleaning
from kraft.log.cleaning.compaction import CleaningAborted, OffsetMapTooSmall, clean
from kraft.log.disk import Disk, is_disk_full
from kraft.log.partition_log import PartitionLog
from kraft.log.segment.aborted_index import AbortedEntries
from kraft.log.segment.segment import Segment
from kraft.log.topic_config import TopicConfig
from kraft.model.callbacks import NowMs
from kraft.model.errors import Corruption, Refusal
from kraft.model.ids import LogDirectory
from kraft.server.config.components import LogMaintenance
from kraft.server.loop.periods import loop_time_s
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.server.upkeep.counts import UpkeepCounts, UpkeepTask
from kraft.server.upkeep.throttle import Stopped, Throttle

log = structlog.get_logger()

RETRY_AFTER_S: Final = 60.0
"""Pause before a log is cleaned again that had no room on the disk."""


class _Cleaned(Struct, frozen=True, kw_only=True):
    result: CleaningResult
    segments: list[Segment]


class LogCleaner:
    """Compacts logs until `run` is cancelled."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        disk: Disk,
        executor: Executor,
        config: LogMaintenance,
        throttle: Throttle,
        wall_ms: NowMs,
        is_full: Callable[[LogDirectory], bool],
        remove_later: Callable[[Partition, list[str]], None],
        counts: UpkeepCounts,
    ) -> None:
        """`executor` has `cleaner_threads` threads; `is_full` returns whether a log directory's disk is full."""
        self._partitions = partitions
        self._disk = disk
        self._executor = executor
        self._threads = config.cleaner_threads
        self._backoff_s = config.cleaner_backoff_ms / 1_000
        self._map_bytes_max = config.cleaner_dedupe_buffer_bytes // config.cleaner_threads
        self._throttle = throttle
        self._wall_ms = wall_ms
        self._is_full = is_full
        self._remove_later = remove_later
        self._counts = counts
        self._in_progress: set[Partition] = set()
        self._uncleanable: set[Partition] = set()
        self._suspected: dict[Partition, Corruption] = {}
        """Corruption that was found once."""
        self._not_before_s: dict[Partition, float] = {}

    def set_backoff_ms(self, backoff_ms: int) -> None:
        """Set the pause after a search without work, from the next pause on."""
        self._backoff_s = backoff_ms / 1_000

    async def run(self) -> None:
        """Clean until cancelled. The caller also stops the throttle, so that the threads end."""
        async with asyncio.TaskGroup() as workers:
            for _ in range(self._threads):
                workers.create_task(self._work())

    async def _work(self) -> None:
        while True:
            if not await self.clean_dirtiest():
                self._counts.round_ended(UpkeepTask.CLEANER, loop_time_s())
                await asyncio.sleep(self._backoff_s)

    async def clean_dirtiest(self) -> bool:
        """Compact the log with the highest dirty ratio. Return False if no log needs it."""
        self._forget_closed()
        self._counts.uncleanable = len(self._uncleanable)
        chosen = max(self._candidates(), key=lambda candidate: candidate[1].dirty_ratio, default=None)
        if chosen is None:
            return False
        partition, plan = chosen
        self._in_progress.add(partition)
        try:
            await self._clean(partition, plan)
        finally:
            self._in_progress.discard(partition)
        return True

    def _candidates(self) -> list[tuple[Partition, CleaningPlan]]:
        now_s = loop_time_s()
        found = []
        for partition in self._partitions:
            is_skipped = (
                partition in self._in_progress
                or partition in self._uncleanable
                or not partition.is_open
                # In the middle of a truncation the state of its producers, whose last batches stay, is not yet rebuilt.
                or partition.replica_log.is_changing
                or partition.replica_log.move is not None
                or not partition.log.config.compacts
                or self._not_before_s.get(partition, now_s) > now_s
                or self._is_full(partition.log_directory)
            )
            plan = None if is_skipped else _plan(partition, self._wall_ms())
            if plan is not None:
                found.append((partition, plan))
        return found

    def _forget_closed(self) -> None:
        held = set(self._partitions)
        self._uncleanable &= held
        self._suspected = {partition: found for partition, found in self._suspected.items() if partition in held}
        self._not_before_s = {partition: then for partition, then in self._not_before_s.items() if partition in held}

    # --- one log ---------------------------------------------------------------------------------------------

    async def _clean(self, partition: Partition, plan: CleaningPlan) -> None:
        loop = asyncio.get_running_loop()
        began_s, held, config = loop.time(), partition.log, partition.log.config
        producers = held.transactions.kept_batches()
        aborted = held.transactions.aborted_entries(plan.segments[0].base_offset)
        try:
            cleaned = await loop.run_in_executor(
                self._executor, lambda: self._clean_in_thread(partition, held, plan, config, producers, aborted)
            )
        except (Stopped, CleaningAborted):
            return
        except Exception as error:  # noqa: BLE001  One failed log must not stop the cleaning of the others.
            if not isinstance(error, Corruption) or self._is_confirmed(partition, held, plan, error):
                self._failed(partition, error)
            return
        self._suspected.pop(partition, None)
        if not _is_cleanable(partition, held) or held.config != config:
            # Deleted, failed, being moved, or reconfigured meanwhile.
            await loop.run_in_executor(self._executor, lambda: self._discard_in_thread(partition, cleaned))
            return
        fits = cleaned.result.fits(partition.log.segments())
        try:
            replaced = await partition.replica_log.install_cleaned(cleaned.result, cleaned.segments).wait()
        except Refusal as refusal:
            if not _is_cleanable(partition, held):
                await loop.run_in_executor(self._executor, lambda: self._discard_in_thread(partition, cleaned))
                return
            self._delay(partition, refusal.message)
            return
        self._remove_later(partition, replaced)
        if fits:
            self._log_compacted(partition, cleaned.result, loop.time() - began_s)

    def _log_compacted(self, partition: Partition, result: CleaningResult, took_s: float) -> None:
        counts = self._counts
        counts.compactions += 1
        counts.cleaning_s += took_s
        counts.compaction_bytes_read += result.bytes_read
        counts.compaction_bytes_kept += result.bytes_kept
        log.info(
            "log compacted",
            partition=str(partition.topic_partition),
            up_to=result.end_offset,
            records_before=result.records_read,
            records=result.records_kept,
            bytes_before=result.bytes_read,
            bytes=result.bytes_kept,
            keys=result.map_keys,
            took_s=round(took_s, 3),
        )

    def _clean_in_thread(
        self,
        partition: Partition,
        held: PartitionLog,
        plan: CleaningPlan,
        config: TopicConfig,
        producers: Mapping[int, int],
        aborted: Sequence[AbortedEntries],
    ) -> _Cleaned:
        def on_progress(size: int) -> None:
            self._throttle.pass_bytes(size)
            if not _is_cleanable(partition, held):
                raise Stopped
            if self._is_full(partition.log_directory):
                raise OSError(ENOSPC, "too little free space on the disk for compaction")

        with partition.replica_log.files_in_use:
            if not _is_cleanable(partition, held):
                raise Stopped
            result = clean(
                self._disk,
                held.directory,
                plan,
                config,
                self._wall_ms(),
                self._map_bytes_max,
                producers,
                on_progress,
                aborted,
            )
            try:
                segments = open_cleaned(self._disk, held.directory, result, config.index_interval_bytes)
            except (Corruption, OSError):
                discard(self._disk, result)
                raise
            return _Cleaned(result=result, segments=segments)

    def _discard_in_thread(self, partition: Partition, cleaned: _Cleaned) -> None:
        with partition.replica_log.files_in_use, suppress(OSError):
            # A file that cannot be removed now is removed with the partition, or at the next start.
            close_cleaned(cleaned.segments)
            discard(self._disk, cleaned.result)

    def _is_confirmed(self, partition: Partition, held: PartitionLog, plan: CleaningPlan, found: Corruption) -> bool:
        """Return whether the last attempt found the same, in segments that have not changed since they were planned."""
        before = self._suspected.pop(partition, None)
        is_changed = partition.replica_log.is_changing or not set(plan.segments) <= set(held.segments())
        if is_changed or not _is_cleanable(partition, held):
            return False
        if before is not None and (before.file, before.position, before.reason) == (
            found.file,
            found.position,
            found.reason,
        ):
            return True
        self._suspected[partition] = found
        return False

    def _failed(self, partition: Partition, error: Exception) -> None:
        name = str(partition.topic_partition)
        if not partition.is_open:
            return
        match error:
            case Corruption():
                self._uncleanable.add(partition)
                partition.replica_log.found_corrupt(error)
            case OSError() if is_disk_full(error):
                self._delay(partition, str(error))
            case OSError():
                self._uncleanable.add(partition)
                partition.replica_log.storage_failed(f"{name} cannot be compacted: {error}")
            case OffsetMapTooSmall():
                self._uncleanable.add(partition)
                log.error("compaction disabled for log", partition=name, reason=str(error))
            case _:
                self._uncleanable.add(partition)
                log.error("internal error", task="log cleaner", partition=name, exc_info=error)

    def _delay(self, partition: Partition, reason: str) -> None:
        self._not_before_s[partition] = loop_time_s() + RETRY_AFTER_S
        log.warning("compaction delayed", partition=str(partition.topic_partition), reason=reason)


def _is_cleanable(partition: Partition, held: PartitionLog) -> bool:
    """Return whether `held` is still the partition's log, and is not being moved."""
    return partition.is_open and partition.log is held and partition.replica_log.move is None


def _plan(partition: Partition, now_ms: int) -> CleaningPlan | None:
    held = partition.log
    # An undecided record must neither be dropped nor replace another one.
    upper = partition.last_stable_offset
    return plan_cleaning(held.segments(), held.config, held.cleaned_end_offset, upper, now_ms)
