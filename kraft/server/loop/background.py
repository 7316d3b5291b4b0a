"""Tasks that are not awaited: an error in one of them stops the node instead of passing unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

import structlog

from kraft.model.callbacks import Fatal

log = structlog.get_logger()


def start(work: Coroutine[Any, Any, None], name: str, fatal: Fatal) -> asyncio.Task[None]:
    """Run `work` as a task, which its owner cancels. An exception from it is a bug and is passed to `fatal`."""

    def ended(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("internal error", task=name, exc_info=error)
            fatal(f"internal error in the {name}: {error!r}: report it with this log")

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(ended)
    return task


class BackgroundTasks:
    """The tasks of one owner, which `start` starts."""

    def __init__(self, fatal: Fatal) -> None:
        self._fatal = fatal
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = start(work, name, self._fatal)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def cancel(self) -> None:
        for task in self._running:
            task.cancel()

    async def ended(self) -> None:
        """Wait for the ends of all tasks, whatever their outcomes."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def close(self) -> None:
        """Cancel all tasks, and wait for their ends."""
        await cancelled(self._running)


async def cancelled(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel the tasks, and wait for their ends, whatever their outcomes."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
