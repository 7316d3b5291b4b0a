"""Removes the directories of deleted replicas in the background, one at a time.

A deleted replica's directory is renamed first, durably, so that its name is free and nobody takes what is left for a
replica (see PartitionStore). Its files may be many and large: they are removed in a thread of their own, so that
neither the loop nor the opening of logs waits. What is left when the node ends is removed after its next start.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Final

import structlog

from kraft.log.disk import Disk
from kraft.server.replica.log_directories import LogDirectories

log = structlog.get_logger()

PAUSE_MAX_S: Final = 1.0
"""Between two removals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedDirectory:
    """`name` in the log directory `directory`; `replica` is what it was called before."""

    directory: str
    name: str
    replica: str


class ReplicaRemovals:
    """`run` lasts until it is cancelled; the thread ends soon after, between two files."""

    def __init__(
        self,
        *,
        disk: Disk,
        directories: LogDirectories,
        thread: Executor,
        directory_failed: Callable[[str, str], None],
    ) -> None:
        self._disk = disk
        self._directories = directories
        self._thread = thread
        self._directory_failed = directory_failed
        self._waiting: deque[DeletedDirectory] = deque()
        self._removed: Counter[str] = Counter()
        """Replicas by topic, since all that waited were removed."""
        self._wanted = asyncio.Event()
        self._stopped = Event()

    def add(self, deleted: DeletedDirectory) -> None:
        self._waiting.append(deleted)
        self._wanted.set()

    async def run(self) -> None:
        try:
            while True:
                await self._wanted.wait()
                await self.remove_waiting()
        finally:
            self._stopped.set()

    async def remove_waiting(self) -> None:
        """All that were added so far, and meanwhile."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            deleted = self._waiting.popleft()
            # Nothing is tried on a directory that failed; what is left in it is found when it is back.
            if not self._directories.is_online(deleted.directory):
                continue
            began_s = loop.time()
            try:
                await loop.run_in_executor(self._thread, self._remove, deleted)
            except OSError as error:
                self._directory_failed(deleted.directory, str(error))
            else:
                self._removed[deleted.replica.rpartition("-")[0]] += 1
            # Half of the time belongs to others.
            await asyncio.sleep(min(loop.time() - began_s, PAUSE_MAX_S))
        self._wanted.clear()
        for topic, count in self._removed.items():
            log.info("deleted replicas removed", topic=topic, replicas=count)
        self._removed.clear()

    def _remove(self, deleted: DeletedDirectory) -> None:
        """Blocks. Not durable: what a power failure brings back is found at the next start."""
        path = f"{deleted.directory}/{deleted.name}"
        # An operator in need of room may have been quicker.
        with suppress(FileNotFoundError):
            for name in self._disk.list(path):
                if self._stopped.is_set():
                    return
                # Only a directory is left to the last step, and nothing of ours makes one in there.
                with suppress(FileNotFoundError, IsADirectoryError, PermissionError):
                    self._disk.remove(f"{path}/{name}")
            self._disk.remove_tree(path)
