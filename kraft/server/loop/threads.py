"""Blocking work, done in a thread while the event loop goes on, and what keeps threads apart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from threading import Lock
from typing import TypeVar, TypeVarTuple, Unpack

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


async def in_thread(executor: Executor, work: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
    """What `work` returns or raises. Cancelled, it leaves work that has begun to its thread."""
    return await asyncio.get_running_loop().run_in_executor(executor, work, *arguments)


class BothLocks:
    """A context in which both are held. May be entered again and again."""

    def __init__(self, *locks: Lock) -> None:
        self._locks = locks

    def __enter__(self) -> None:
        for lock in self._locks:
            lock.acquire()

    def __exit__(self, *_: object) -> None:
        for lock in reversed(self._locks):
            lock.release()
