"""Removes files of the logs in one log directory after their delay, `file.delete.delay.ms`."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from contextlib import suppress
from heapq import heappop, heappush

import structlog

from kraft.log.disk import Disk
from kraft.server.loop.periods import loop_time_s
from kraft.server.loop.threads import in_thread

log = structlog.get_logger()


class FileRemover:
    """Removes files until `run` is cancelled. Those left when the node stops are removed at its next start."""

    def __init__(self, disk: Disk, thread: Executor) -> None:
        """`thread` deletes whole partitions too, so that both are never in one directory at the same time."""
        self._disk = disk
        self._thread = thread
        self._waiting: list[tuple[float, list[str]]] = []
        self._wanted = asyncio.Event()

    def add(self, paths: list[str], delay_s: float) -> None:
        heappush(self._waiting, (loop_time_s() + delay_s, paths))
        self._wanted.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            wait_s = self._waiting[0][0] - loop.time() if self._waiting else None
            if wait_s is None or wait_s > 0:
                self._wanted.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._wanted.wait()
                continue
            _, paths = heappop(self._waiting)
            await in_thread(self._thread, self._remove, paths)

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            try:
                self._disk.remove(path)
            except FileNotFoundError:
                # The partition was deleted meanwhile, with its files.
                continue
            except OSError as error:
                log.warning("file deletion failed", reason=str(error))
