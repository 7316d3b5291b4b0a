"""Stops serving replicas that were deleted or assigned to other brokers, and frees the names of their directories."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from kraft.metadata.delta import RemovedPartition
from kraft.model.callbacks import Callback, Fatal
from kraft.model.ids import LogDirectory, TopicPartition
from kraft.server.loop import background
from kraft.server.loop.turns import Turns
from kraft.server.replica.directory_remover import DirectoryRemover
from kraft.server.replica.failures import ReplicaFailures
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replica_directories import DeletedReplica
from kraft.server.replica.replica_storage import ReplicaStorage

log = structlog.get_logger()

RETIRED_AT_ONCE: Final = 100


class ReplicaStopper:
    """Deletes replicas: they are not served from then on, and their directories are renamed in the background."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        storage: ReplicaStorage,
        failures: ReplicaFailures,
        remover: DirectoryRemover,
        marked: Callable[[LogDirectory], Awaitable[object]],
        freed: Callback,
        fatal: Fatal,
    ) -> None:
        """`marked` is called after directories were renamed in a log directory; their names are free when it returns.
        Then `freed` is called.
        """
        self._partitions = partitions
        self._storage = storage
        self._failures = failures
        self._remover = remover
        self._marked = marked
        self._freed = freed
        self._fatal = fatal
        self._unmarked: defaultdict[LogDirectory, list[DeletedReplica]] = defaultdict(list)
        self._marking: dict[LogDirectory, asyncio.Task[None]] = {}
        self._taken: Counter[TopicPartition] = Counter()
        """Names that deleted replicas still have."""

    async def delete(self, removed: Sequence[RemovedPartition]) -> None:
        """Stop serving these replicas. The next metadata waits for the disk only if it needs one of their names."""
        turns = Turns(RETIRED_AT_ONCE)
        for each in removed:
            replica = self._retire(each)
            if replica is not None:
                self._unmarked[replica.directory].append(replica)
                self._taken[replica.topic_partition] += 1
            await turns.done()
        for directory in self._unmarked.keys() - self._marking.keys():
            marking = self._mark_deleted(directory)
            self._marking[directory] = background.start(marking, "marking of deleted replicas", self._fatal)

    def is_free(self, topic_partition: TopicPartition) -> bool:
        """Return whether a new replica can have the name: no deleted one has it any more."""
        return topic_partition not in self._taken

    async def wait_for_free_names(self) -> None:
        """Wait until new replicas can have the names of all deleted ones."""
        while self._marking:
            await asyncio.wait(self._marking.values())

    async def resume_removal(self) -> None:
        """Remove the directories that an earlier process had renamed."""
        left = await self._storage.in_thread(self._storage.replica_directories.left_to_remove)
        for directory in left:
            self._remover.add(directory)
        if left:
            log.info("deleted replica removal resumed", replicas=len(left))

    def _retire(self, removed: RemovedPartition) -> DeletedReplica | None:
        """Stop serving the replica. Return None when its directory cannot be deleted.

        A replica in an offline log directory stays there; it is renamed as a stray when the directory is back.
        """
        partition = self._partitions.find(removed.id)
        if partition is not None:
            self._partitions.remove(partition)
            partition.retire()
            return DeletedReplica(
                topic_partition=partition.topic_partition,
                directory=partition.log_directory,
                files_in_use=partition.replica_log.directory_in_use,
            )
        replica = self._partitions.find_offline(removed.id)
        if replica is None:
            return None
        self._partitions.forget_offline(replica)
        if replica.log_directory is None:
            return None
        return DeletedReplica(
            topic_partition=replica.topic_partition, directory=replica.log_directory, files_in_use=replica.files_in_use
        )

    async def _mark_deleted(self, directory: LogDirectory) -> None:
        """Rename the directories of the deleted replicas there; `DirectoryRemover` removes the files."""
        replica_directories = self._storage.replica_directories
        try:
            while deleted := self._unmarked.pop(directory, None):
                marked, failures = await self._storage.in_thread_of(
                    directory, replica_directories.mark_deleted, deleted
                )
                for failure in failures:
                    self._failures.directory_failed(failure.directory, str(failure))
                for topic, count in Counter(replica.topic_partition.topic for replica in deleted).items():
                    log.info("replicas marked for deletion", topic=topic, replicas=count)
                for each in marked:
                    self._remover.add(each)
                await self._marked(directory)
                self._taken -= Counter(replica.topic_partition for replica in deleted)
        finally:
            del self._marking[directory]
        self._freed()
