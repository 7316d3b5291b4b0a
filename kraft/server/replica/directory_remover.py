"""Removes the directories of deleted replicas in the background, one at a time.

A deleted replica's directory is renamed first, durably, so that its name is free and its files are not taken for a
replica (see ReplicaDirectories). It may have many large files: a separate thread removes them, so that neither the loop
nor the opening of logs waits. Files that are left when the node stops are removed after its next start.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from concurrent.futures import Executor
from contextlib import suppress
from threading import Event
from typing import Final

import structlog
from msgspec import Struct

from kraft.log.disk import Disk
from kraft.model.callbacks import OnDirectoryFailure
from kraft.model.ids import LogDirectory
from kraft.server.replica.log_directories import LogDirectories

log = structlog.get_logger()

PAUSE_MAX_S: Final = 1.0
"""Longest pause between two removals."""


class DeletedDirectory(Struct, frozen=True, kw_only=True):
    """A directory to remove: `name` in the log directory `directory`; `replica` is its earlier name."""

    directory: LogDirectory
    name: str
    replica: str


class DirectoryRemover:
    """Removes directories until `run` is cancelled; the thread ends soon after, between two files."""

    def __init__(
        self, *, disk: Disk, directories: LogDirectories, thread: Executor, directory_failed: OnDirectoryFailure
    ) -> None:
        self._disk = disk
        self._directories = directories
        self._thread = thread
        self._directory_failed = directory_failed
        self._waiting: deque[DeletedDirectory] = deque()
        self._removed: Counter[str] = Counter()
        """Replicas by topic that were removed since the queue was last empty."""
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
        """Remove all directories added before and during this call."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            deleted = self._waiting.popleft()
            # A failed directory is not touched; after a restart with a working disk the removal is resumed.
            if not self._directories.is_online(deleted.directory):
                continue
            began_s = loop.time()
            try:
                await loop.run_in_executor(self._thread, self._remove, deleted)
            except OSError as error:
                self._directory_failed(deleted.directory, str(error))
            else:
                self._removed[deleted.replica.rpartition("-")[0]] += 1
            # Pause as long as the removal took: the disk is used for removals half of the time at most.
            await asyncio.sleep(min(loop.time() - began_s, PAUSE_MAX_S))
        self._wanted.clear()
        for topic, count in self._removed.items():
            log.info("deleted replicas removed", topic=topic, replicas=count)
        self._removed.clear()

    def _remove(self, deleted: DeletedDirectory) -> None:
        """Remove the directory. Blocks. Not durable: the next start finds what a power failure brings back."""
        path = f"{deleted.directory}/{deleted.name}"
        # An operator may have removed it by hand to free space.
        with suppress(FileNotFoundError):
            for name in self._disk.list(path):
                if self._stopped.is_set():
                    return
                # Kraft creates no directories in it; another program's is removed by remove_tree below.
                with suppress(FileNotFoundError, IsADirectoryError, PermissionError):
                    self._disk.remove(f"{path}/{name}")
            self._disk.remove_tree(path)
