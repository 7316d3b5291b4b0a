"""Syncs beside appends, for one log: as a broker does it, without the broker."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from types import TracebackType
from typing import Final, Self

from kraft.log.change import run_now
from kraft.log.group_commit import SyncTicket
from kraft.log.partition_log import PartitionLog

SYNC_DEADLINE_S: Final = 120.0


class GroupCommit:
    """A context manager; `poll` after every append.

    A sync is under way whenever at least `unsynced_bytes` wait for one; so, by default, whenever there is anything.
    """

    def __init__(self, log: PartitionLog, unsynced_bytes: int = 0) -> None:
        self.syncs = 0
        self._log = log
        self._unsynced_bytes = unsynced_bytes
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sync")
        self._ticket: SyncTicket | None = None
        self._running: Future[None] | None = None

    def poll(self) -> None:
        """Completes a sync that has ended, and begins the next."""
        if self._ticket is not None:
            if not self._ticket.has_run:
                return
            self._complete()
        if self._log.dirty and self._log.has_unsynced(self._unsynced_bytes):
            self._ticket = self._log.prepare_sync()
            self._running = self._thread.submit(self._ticket.run)

    def drain(self) -> None:
        """Returns when everything that was appended is durable."""
        self._unsynced_bytes = 0
        while self._log.dirty:
            self.poll()
            self._wait()

    def _wait(self) -> None:
        if self._running is not None:
            _, late = wait_for([self._running], SYNC_DEADLINE_S)
            if late:
                raise TimeoutError(f"a sync took longer than {SYNC_DEADLINE_S:.0f} s")
            self._complete()

    def _complete(self) -> None:
        ticket, self._ticket, self._running = self._ticket, None, None
        if ticket is not None:
            self.syncs += 1
            self._log.complete_sync(ticket, run_now)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        self._complete()
