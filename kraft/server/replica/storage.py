"""The storage of a broker's replicas."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar, TypeVarTuple, Unpack

from kraft.log.disk import Disk
from kraft.server.loop.threads import in_thread
from kraft.server.replica.log_directories import LogDirectories
from kraft.server.replica.store import PartitionStore

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStorage:
    """`thread` is the one in which the store is used."""

    disk: Disk
    directories: LogDirectories
    store: PartitionStore
    thread: Executor

    async def in_thread(self, work: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
        """What `work` returns or raises, done in the store's thread."""
        return await in_thread(self.thread, work, *arguments)
