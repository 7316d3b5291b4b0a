"""A thread beside the event loop for work that blocks on the disk, one task after the other, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class DiskThread(Protocol):
    def start(self, work: Callable[[], Result], done: Callable[[Future[Result]], None], /) -> None:
        """Do the work after all work before it; then call `done` on the event loop with the finished future."""

    async def close(self) -> None:
        """Wait until all work is done; `done` may still be called after that."""


class OwnThread:
    """A DiskThread with a thread of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._executor: ThreadPoolExecutor | None = None

    def start(self, work: Callable[[], Result], done: Callable[[Future[Result]], None], /) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        loop = asyncio.get_running_loop()

        def call_done(future: Future[Result]) -> None:
            try:
                loop.call_soon_threadsafe(done, future)
            except RuntimeError:
                # A node that ends at once closes its loop while work is under way: `done` has no loop to run on.
                if not loop.is_closed():
                    raise

        self._executor.submit(work).add_done_callback(call_done)

    async def close(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            # The work may take as long as the disk, and others need the loop meanwhile.
            await asyncio.to_thread(executor.shutdown)
