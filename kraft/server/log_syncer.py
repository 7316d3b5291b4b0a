"""Group commit: one task syncs every log that has something unsynced, again and again while there are any.

A produce never waits for a sync of its own. While one round is on the disk, in a thread, appends go on; the next round
covers all of them at once.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Protocol

from kraft.log.group_commit import SyncTicket


class Syncable(Protocol):
    """A replica with a log."""

    def prepare_sync(self) -> SyncTicket | None:
        """What is unsynced now; None when nothing is."""

    def complete_sync(self, ticket: SyncTicket) -> None:
        """The ticket ran: what it covered is on disk, or the disk failed."""


class LogSyncer:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._dirty: dict[Syncable, None] = {}
        self._wanted = asyncio.Event()

    def request(self, replica: Syncable) -> None:
        """The replica's log was appended to. Its `complete_sync` is called once that is durable."""
        self._dirty[replica] = None
        self._wanted.set()

    async def run(self) -> None:
        """Syncs until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            dirty, self._dirty = self._dirty, {}
            tickets = [(replica, ticket) for replica in dirty if (ticket := replica.prepare_sync()) is not None]
            if tickets:
                await loop.run_in_executor(self._executor, _run_all, [ticket for _, ticket in tickets])
            for replica, ticket in tickets:
                replica.complete_sync(ticket)


def _run_all(tickets: list[SyncTicket]) -> None:
    for ticket in tickets:
        ticket.run()
