"""Writes the high watermark checkpoints of a broker's log directories from the replicas that it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

import structlog

from kraft.log.disk import is_disk_full
from kraft.model.ids import LogDirectory, Offset, TopicPartition
from kraft.server.replica.failures import ReplicaFailures
from kraft.server.replica.high_watermarks import HighWatermarks
from kraft.server.replica.partitions import Damage, Partitions
from kraft.server.replica.replica_storage import ReplicaStorage

log = structlog.get_logger()


class HighWatermarkCheckpoints:
    """The checkpoints on the disk; `read` has what they held at the start."""

    def __init__(self, partitions: Partitions, storage: ReplicaStorage, failures: ReplicaFailures) -> None:
        self._partitions = partitions
        self._storage = storage
        self._directories = storage.directories
        self._failures = failures
        self.read = HighWatermarks(storage.disk, storage.directories.online)
        self._skipped: set[LogDirectory] = set()
        """Directories without room for their checkpoint, which is logged once, and tried again every few seconds."""

    async def write(
        self, *, needs_room: bool, only: Collection[LogDirectory] | None = None
    ) -> Mapping[LogDirectory, str]:
        """Write the checkpoints, all at the same time. Return the log directories without room, each with the error.

        With `needs_room` an outdated file would do harm: a full disk counts as failed.
        """
        held = self._held()
        chosen = [each for each in held if only is None or each in only]
        # All begin in the next turn, so that no earlier call of this method writes to one of them later.
        errors = await asyncio.gather(*(self._write(each, held[each], needs_room=needs_room) for each in chosen))
        return {directory: error for directory, error in zip(chosen, errors, strict=True) if error is not None}

    async def _write(
        self, directory: LogDirectory, offsets: Mapping[TopicPartition, Offset], *, needs_room: bool
    ) -> str | None:
        """Write one checkpoint. Return the error if there is no room for it."""
        try:
            await self._storage.in_thread_of(directory, self.read.write, directory, offsets)
        except OSError as error:
            if is_disk_full(error) and not needs_room:
                if directory not in self._skipped:
                    self._skipped.add(directory)
                    log.warning("high watermark checkpoint skipped, disk full", directory=directory, reason=str(error))
                return str(error)
            self._failures.directory_failed(directory, str(error))
        self._skipped.discard(directory)
        return None

    def _held(self) -> dict[LogDirectory, dict[TopicPartition, Offset]]:
        """Return the high watermarks by log directory.

        Replicas in an offline directory are listed in another one, so that their loss is noticed. One that was never
        created cannot be lost.
        """
        held: dict[LogDirectory, dict[TopicPartition, Offset]] = {each: {} for each in self._directories.online}
        if not held:
            return {}
        for partition in self._partitions:
            offsets = held.get(partition.log_directory)
            if offsets is not None:
                offsets[partition.topic_partition] = partition.high_watermark
        elsewhere = self._directories.online[0]
        for replica in self._partitions.offline:
            if replica.damage is Damage.NOT_CREATED:
                continue
            known = replica.log_directory
            directory = known if known is not None and known in held else elsewhere
            held[directory][replica.topic_partition] = replica.high_watermark
        return held
