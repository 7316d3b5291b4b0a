"""The storage of a broker's replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple, Unpack

from msgspec import Struct

from kraft.log.disk import Disk
from kraft.model.ids import LogDirectory
from kraft.server.loop.threads import in_thread
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.replica_directories import ReplicaDirectories

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class ReplicaStorage(Struct, frozen=True, kw_only=True):
    """The directories of a broker's replicas, and the threads in which it is used."""

    disk: Disk
    directories: LogDirectories
    replica_directories: ReplicaDirectories
    thread: Executor
    """For what concerns all log directories: the start."""
    threads: Mapping[LogDirectory, Executor]
    """For what concerns one: a slow disk does not hold the work on the others."""

    async def in_thread(self, work: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
        """Run `work` on all log directories in a thread; return or raise as it does."""
        return await in_thread(self.thread, work, *arguments)

    async def in_thread_of(
        self, directory: LogDirectory, work: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments
    ) -> Result:
        """Run `work` on one log directory, after all that was begun before it; return or raise as it does."""
        return await in_thread(self.threads[directory], work, *arguments)
