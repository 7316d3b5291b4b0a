"""Blocking work in threads, and locks between threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from threading import Lock, Thread
from typing import TypeVar, TypeVarTuple, Unpack

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


async def in_thread(executor: Executor, work: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
    """Run `work` in a thread; return or raise as it does. When cancelled, work that has begun runs to its end."""
    return await asyncio.get_running_loop().run_in_executor(executor, work, *arguments)


async def shut_down(*executors: Executor, drops_waiting: bool = False) -> None:
    """Take no more work, and wait, without blocking the loop, for what has begun; or for all that was submitted."""
    threads: list[Thread] = []
    for executor in executors:
        executor.shutdown(wait=False, cancel_futures=drops_waiting)
        if isinstance(executor, ThreadPoolExecutor):
            threads += executor._threads
    if any(thread.is_alive() for thread in threads):
        await asyncio.to_thread(_join, threads)


def _join(threads: Iterable[Thread]) -> None:
    for thread in threads:
        thread.join()


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
