"""The storage of a broker's replicas."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple, Unpack

from msgspec import Struct

from kraft.log.disk import Disk
from kraft.server.loop.threads import in_thread
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.store import PartitionStore

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


class ReplicaStorage(Struct, frozen=True, kw_only=True):
    """The store of a broker's replicas, and the thread in which it is used."""

    disk: Disk
    directories: LogDirectories
    store: PartitionStore
    thread: Executor

    async def in_thread(self, work: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
        """Run `work` in the store's thread; return or raise as it does."""
        return await in_thread(self.thread, work, *arguments)
