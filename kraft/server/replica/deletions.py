"""Stops serving replicas that were deleted or assigned to other brokers, and frees the names of their directories."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from kraft.metadata.delta import RemovedPartition
from kraft.server.loop import background
from kraft.server.loop.turns import Turns
from kraft.server.replica.failures import ReplicaFailures
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.removals import ReplicaRemovals
from kraft.server.replica.storage import ReplicaStorage
from kraft.server.replica.store import DeletedReplica

log = structlog.get_logger()

RETIRED_AT_ONCE: Final = 100


class ReplicaDeletions:
    """Deletes replicas: they are not served from then on, and their directories are renamed in the background."""

    def __init__(
        self,
        *,
        partitions: Partitions,
        storage: ReplicaStorage,
        failures: ReplicaFailures,
        removals: ReplicaRemovals,
        marked: Callable[[], Awaitable[object]],
        fatal: Callable[[str], None],
    ) -> None:
        """`marked` is called after directories were renamed; their names are free when it returns."""
        self._partitions = partitions
        self._storage = storage
        self._failures = failures
        self._removals = removals
        self._marked = marked
        self._fatal = fatal
        self._unmarked: list[DeletedReplica] = []
        self._marking: asyncio.Task[None] | None = None

    async def delete(self, removed: Sequence[RemovedPartition]) -> None:
        """Stop serving these replicas. The next metadata waits for the disk only if it needs one of their names."""
        turns = Turns(RETIRED_AT_ONCE)
        for each in removed:
            replica = self._retire(each)
            if replica is not None:
                self._unmarked.append(replica)
            await turns.done()
        if self._unmarked and (self._marking is None or self._marking.done()):
            self._marking = background.start(self._mark_deleted(), "marking of deleted replicas", self._fatal)

    async def wait_for_free_names(self) -> None:
        """Wait until new replicas can have the names of all deleted ones."""
        while self._marking is not None and not self._marking.done():
            await asyncio.wait([self._marking])

    async def resume_removals(self) -> None:
        """Remove the directories that an earlier process had renamed."""
        left = await self._storage.in_thread(self._storage.store.left_to_remove)
        for directory in left:
            self._removals.add(directory)
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
                files_in_use=partition.directory_in_use,
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

    async def _mark_deleted(self) -> None:
        """Rename the directories of the deleted replicas; `ReplicaRemovals` removes the files."""
        while self._unmarked:
            deleted, self._unmarked = self._unmarked, []
            marked, failures = await self._storage.in_thread(self._storage.store.mark_deleted, deleted)
            for failure in failures:
                self._failures.directory_failed(failure.directory, str(failure))
            for topic, count in Counter(replica.topic_partition.topic for replica in deleted).items():
                log.info("replicas marked for deletion", topic=topic, replicas=count)
            for directory in marked:
                self._removals.add(directory)
            await self._marked()
