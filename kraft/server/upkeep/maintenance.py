"""Tasks that maintain a broker's logs in use: retention, flushing, compaction, scrub, and removal of old files.

All decisions are made on the loop; threads only read and write many bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final

import structlog

from kraft.log.disk import Disk
from kraft.model.callbacks import NowMs
from kraft.model.errors import Corruption, Refusal
from kraft.model.ids import LogDirectory, Offset
from kraft.server.config.components import LogMaintenance
from kraft.server.loop.periods import loop_time_s, period_end
from kraft.server.replica.log_changes import ChangeOutcome
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.server.upkeep.cleaner import LogCleaner
from kraft.server.upkeep.counts import UpkeepCounts, UpkeepTask
from kraft.server.upkeep.disk_space import DiskSpace
from kraft.server.upkeep.file_remover import FileRemover
from kraft.server.upkeep.scrubber import LogScrubber
from kraft.server.upkeep.throttle import Throttle

log = structlog.get_logger()

DISK_SPACE_CHECK_INTERVAL_S: Final = 1.0


class LogMaintenanceTasks:
    """Maintains logs until `run` is cancelled; the executors' threads end soon after."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        disk: Disk,
        disk_space: DiskSpace,
        config: LogMaintenance,
        wall_ms: NowMs,
        worker_threads: Executor,
        store_threads: Mapping[LogDirectory, Executor],
    ) -> None:
        """`worker_threads` has one thread for the scrub and `cleaner_threads`; `store_threads` delete logs."""
        self._partitions = partitions
        self._disk = disk
        self._disk_space = disk_space
        self._config = config
        self.counts = UpkeepCounts()
        self._retention_wanted = asyncio.Event()
        self._removers = {directory: FileRemover(disk, thread) for directory, thread in store_threads.items()}
        self._cleaner_throttle = Throttle(config.cleaner_io_bytes_per_second_max)
        self._scrub_throttle = Throttle(config.scrub_io_bytes_per_second_max)
        self._cleaner = LogCleaner(
            partitions=partitions,
            disk=disk,
            executor=worker_threads,
            config=config,
            throttle=self._cleaner_throttle,
            wall_ms=wall_ms,
            is_full=disk_space.is_full,
            remove_later=self._remove_later,
            counts=self.counts,
        )
        self._scrubber = LogScrubber(
            partitions=partitions,
            disk=disk,
            executor=worker_threads,
            interval_ms=config.scrub_interval_ms,
            throttle=self._scrub_throttle,
            on_corruption=_found_corrupt,
            counts=self.counts,
        )

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._apply_retention())
                tasks.create_task(self._flush_logs())
                tasks.create_task(self._expire_producers())
                tasks.create_task(self._watch_disk_space())
                for remover in self._removers.values():
                    tasks.create_task(remover.run())
                tasks.create_task(self._scrubber.run())
                if self._config.cleaner_enabled:
                    tasks.create_task(self._cleaner.run())
        finally:
            self._cleaner_throttle.stop()
            self._scrub_throttle.stop()

    def reconfigure(self, config: LogMaintenance) -> None:
        """Apply the settings whose keys are dynamic: they may change while the broker runs."""
        self._cleaner.set_backoff_ms(config.cleaner_backoff_ms)
        self._cleaner_throttle.set_rate(config.cleaner_io_bytes_per_second_max)
        self._scrub_throttle.set_rate(config.scrub_io_bytes_per_second_max)

    def records_deleted(self) -> None:
        """Apply retention now instead of at the next check, because a log start advanced."""
        self._retention_wanted.set()

    # --- retention -------------------------------------------------------------------------------------------

    async def _apply_retention(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config.retention_check_interval_ms / 1_000):
                    await self._retention_wanted.wait()
            self._retention_wanted.clear()
            for partition in self._partitions:
                if partition.is_open:
                    self._begin_retention(partition)
                # A broker has many logs: other tasks get a turn.
                await asyncio.sleep(0)
            self.counts.round_ended(UpkeepTask.RETENTION, loop_time_s())

    def _begin_retention(self, partition: Partition) -> None:
        """Begin retention without waiting for its end: a disk that hangs does not delay the others."""
        before, size_before = partition.log.log_start_offset, partition.log.size_bytes
        try:
            outcome = partition.apply_retention()
        except Refusal as refusal:
            _log_delay(partition, refusal)
        else:
            outcome.when_done(lambda: self._retention_applied(partition, before, size_before, outcome))

    def _retention_applied(
        self, partition: Partition, before: Offset, size_before: int, outcome: ChangeOutcome[list[str]]
    ) -> None:
        try:
            dropped = outcome.result()
        except Refusal as refusal:
            _log_delay(partition, refusal)
            return
        if dropped:
            self._remove_later(partition, dropped)
            self.counts.retention_deletions += 1
            self.counts.retention_bytes += max(0, size_before - partition.log.size_bytes)
            log.info(
                "segments deleted by retention",
                partition=str(partition.topic_partition),
                log_start_before=before,
                log_start=partition.log.log_start_offset,
                bytes_left=partition.log.size_bytes,
            )

    def _remove_later(self, partition: Partition, paths: list[str]) -> None:
        if paths:
            self._removers[partition.log_directory].add(paths, partition.log.config.file_delete_delay_ms / 1_000)

    # --- the smaller tasks -----------------------------------------------------------------------------------

    async def _flush_logs(self) -> None:
        while True:
            await period_end(self._config.flush_check_interval_ms / 1_000)
            for partition in self._partitions:
                partition.replica_log.flush_if_due()
            self.counts.round_ended(UpkeepTask.FLUSH, loop_time_s())

    async def _expire_producers(self) -> None:
        while True:
            await asyncio.sleep(self._config.producer_id_expiration_check_interval_ms / 1_000)
            for partition in self._partitions:
                if partition.is_open:
                    partition.replica_log.expire_producers(self._config.producer_id_expiration_ms)
            self.counts.round_ended(UpkeepTask.PRODUCERS, loop_time_s())

    async def _watch_disk_space(self) -> None:
        while True:
            await period_end(DISK_SPACE_CHECK_INTERVAL_S)
            self._disk_space.recheck()
            self.counts.round_ended(UpkeepTask.DISK_SPACE, loop_time_s())


def _log_delay(partition: Partition, refusal: Refusal) -> None:
    log.warning("retention delayed", partition=str(partition.topic_partition), reason=refusal.message)


def _found_corrupt(partition: Partition, corruption: Corruption) -> None:
    partition.replica_log.found_corrupt(corruption)
