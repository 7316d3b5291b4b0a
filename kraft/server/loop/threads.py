"""Blocking work in threads, and locks between threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from threading import Lock
from typing import TypeVar, TypeVarTuple, Unpack

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


async def in_thread(executor: Executor, work: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
    """Run `work` in a thread; return or raise as it does. When cancelled, work that has begun runs to its end."""
    return await asyncio.get_running_loop().run_in_executor(executor, work, *arguments)


class BothLocks:
    """A context in which all the locks are held. It may be entered several times, one after the other."""

    def __init__(self, *locks: Lock) -> None:
        self._locks = locks

    def __enter__(self) -> None:
        for lock in self._locks:
            lock.acquire()

    def __exit__(self, *_: object) -> None:
        for lock in reversed(self._locks):
            lock.release()
