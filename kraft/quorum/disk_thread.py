"""A thread beside the event loop, for work that blocks on the disk: one piece after the other, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class DiskThread(Protocol):
    def start(self, work: Callable[[], Result], done: Callable[[Future[Result]], None], /) -> None:
        """Does the work when all before it is done; then `done` is called on the event loop, with how it ended."""

    def close(self) -> None:
        """Returns when the work is done; `done` may still be called after that."""


class OwnThread:
    """Implements DiskThread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._executor: ThreadPoolExecutor | None = None

    def start(self, work: Callable[[], Result], done: Callable[[Future[Result]], None], /) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        loop = asyncio.get_running_loop()

        def hand_over(future: Future[Result]) -> None:
            try:
                loop.call_soon_threadsafe(done, future)
            except RuntimeError:
                # A node that ends at once closes its loop while work is under way: nobody is left to be called.
                if not loop.is_closed():
                    raise

        self._executor.submit(work).add_done_callback(hand_over)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
