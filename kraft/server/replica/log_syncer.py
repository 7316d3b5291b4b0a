"""Group commit: a task for each log directory syncs the logs in it, again and again while any has something unsynced.

A produce never waits for a sync of its own. While one round is on the disk, in a thread, appends go on; the next round
covers all of them at once. Each directory has a thread of its own, so that a disk that hangs delays no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol


class Ticket(Protocol):
    """Work on the files of one log."""

    def run(self) -> None:
        """Blocks, in any thread. Keeps its failure."""


class Syncable(Protocol):
    """A replica with a log."""

    @property
    def log_directory(self) -> str:
        """The one that the log is in now."""

    def prepare_sync(self) -> Ticket | None:
        """Next work on the log's files: a sync, or a step of a change. None when there is none."""

    # Each replica takes back what it gave out.
    def complete_sync(self, ticket: Any) -> None:
        """The ticket ran: what it covered is on disk, or the disk failed."""


class LogSyncer:
    def __init__(self, directories: Iterable[str]) -> None:
        """Every log directory that a replica may be in."""
        self._directories = {
            directory: _DirectorySyncer(number) for number, directory in enumerate(dict.fromkeys(directories))
        }

    def request(self, replica: Syncable) -> None:
        """The replica's log was appended to. Its `complete_sync` is called once that is durable."""
        self._directories[replica.log_directory].request(replica)

    async def run(self) -> None:
        """Syncs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for directory, syncer in self._directories.items():
                tasks.create_task(self._run_one(directory, syncer))

    async def _run_one(self, directory: str, syncer: _DirectorySyncer) -> None:
        while True:
            for replica in await syncer.wanted():
                # A replica that moved meanwhile is synced where it is now: its log has one sync at a time.
                if replica.log_directory != directory:
                    self.request(replica)
                else:
                    syncer.prepare(replica)
            await syncer.sync()

    def close(self) -> None:
        """After `run` ended: waits for the syncs that are under way."""
        for syncer in self._directories.values():
            syncer.close()


class _DirectorySyncer:
    def __init__(self, number: int) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"log-sync-{number}")
        self._dirty: dict[Syncable, None] = {}
        self._wanted = asyncio.Event()
        self._round: list[tuple[Syncable, Ticket]] = []

    def request(self, replica: Syncable) -> None:
        self._dirty[replica] = None
        self._wanted.set()

    async def wanted(self) -> list[Syncable]:
        """The replicas that asked for a sync since the last round; waits for the first one."""
        await self._wanted.wait()
        self._wanted.clear()
        dirty, self._dirty = self._dirty, {}
        return list(dirty)

    def prepare(self, replica: Syncable) -> None:
        ticket = replica.prepare_sync()
        if ticket is not None:
            self._round.append((replica, ticket))

    async def sync(self) -> None:
        """One round: of all that was prepared."""
        tickets, self._round = self._round, []
        if tickets:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, _run_all, [ticket for _, ticket in tickets])
        for replica, ticket in tickets:
            replica.complete_sync(ticket)

    def close(self) -> None:
        self._thread.shutdown()


def _run_all(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.run()
