"""Group commit: one task per log directory syncs the logs in it while any of them has unsynced records.

A produce does not have its own sync. While one round of syncs runs in a thread, appends continue; the next round covers
all of them at once. Each directory has its own thread, so that a disk that hangs does not delay the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter
from typing import Any, Final, Protocol

import structlog

from kraft.model.ids import LogDirectory
from kraft.server.loop.threads import shut_down

log = structlog.get_logger()

SLOW_S: Final = 1.0
"""A round that takes longer is logged: producers with acks=all wait for it."""

LOGGED_AGAIN_AFTER_S: Final = 60.0

HOLDING_S: Final = 0.25
"""Time of a sync from which on no write to the same file may meet it, because the kernel may let it wait for the sync,
and the event loop with it."""

HOLDING_KEPT_S: Final = 30.0
"""A disk that was so slow is taken to be slow for that long afterwards."""

_GATHERING_S_MIN: Final = 0.01
_GATHERING_S_MAX: Final = 0.5
_GATHERING_SHARE: Final = 0.1


class Ticket(Protocol):
    """Work on the files of one log."""

    def run(self) -> None:
        """Do the work. Blocks, in any thread. An error is kept for `complete_sync`."""


class Syncable(Protocol):
    """A replica with a log."""

    @property
    def log_directory(self) -> LogDirectory:
        """The log directory that the log is in now."""

    def prepare_sync(self) -> Ticket | None:
        """Return the next work on the log's files: a sync, or a step of a change. None if there is none."""

    # Each replica has its own type of ticket.
    def complete_sync(self, ticket: Any) -> None:
        """Handle the end of a ticket's work: what it covered is on disk, or the disk failed."""


class SyncCounts:
    """Rounds of syncs of one log directory since the process began."""

    __slots__ = ("_began_s", "_holding_until_s", "_in_round", "_last_s", "logs", "longest_s", "rounds", "seconds")

    def __init__(self) -> None:
        self.rounds = 0
        self.logs = 0
        """Logs that were synced in them, and steps of other changes."""
        self.seconds = 0.0
        self.longest_s = 0.0
        self._last_s = 0.0
        self._began_s: float | None = None
        """When the running round began; None between rounds."""
        self._in_round = 1
        self._holding_until_s = 0.0

    @property
    def latest_s(self) -> float:
        """Return how long the last round took, or how long the running one takes already, if that is longer."""
        return self._last_s if self._began_s is None else max(self._last_s, perf_counter() - self._began_s)

    @property
    def holds_writes(self) -> bool:
        """True if a write to a file should wait for the file's sync, since this takes long, or did lately."""
        now_s, began_s = perf_counter(), self._began_s
        return now_s < self._holding_until_s or (began_s is not None and now_s - began_s >= HOLDING_S * self._in_round)

    @property
    def gathering_s(self) -> float:
        """How long a round waits for the appends that waited for the last one, so that it covers them all."""
        if not self.holds_writes:
            return 0.0
        return min(max(self._last_s * _GATHERING_SHARE, _GATHERING_S_MIN), _GATHERING_S_MAX)

    def begin(self, logs: int = 1) -> None:
        self._began_s, self._in_round = perf_counter(), logs

    def note(self, logs: int, took_s: float) -> None:
        if took_s >= HOLDING_S * logs:
            self._holding_until_s = perf_counter() + HOLDING_KEPT_S
        self._began_s, self._last_s = None, took_s
        self.rounds += 1
        self.logs += logs
        self.seconds += took_s
        self.longest_s = max(self.longest_s, took_s)


class LogSyncer:
    """Syncs the logs of all log directories until `run` is cancelled."""

    def __init__(self, directories: Iterable[LogDirectory]) -> None:
        """`directories` are all log directories that a replica may be in."""
        self._directories = {
            directory: _DirectorySyncer(number, directory)
            for number, directory in enumerate(dict.fromkeys(directories))
        }

    @property
    def counts(self) -> dict[LogDirectory, SyncCounts]:
        return {directory: syncer.counts for directory, syncer in self._directories.items()}

    def latest_s(self, directory: LogDirectory) -> float:
        """Return how long a round of syncs takes there now; 0 in a directory that had none."""
        syncer = self._directories.get(directory)
        return 0.0 if syncer is None else syncer.counts.latest_s

    def holds_writes(self, directory: LogDirectory) -> bool:
        """Return whether syncs there take so long that no write to a file should meet a sync of it."""
        syncer = self._directories.get(directory)
        return syncer is not None and syncer.counts.holds_writes

    def request(self, replica: Syncable) -> None:
        """Request a sync of the replica's log; `complete_sync` is called after it."""
        self._directories[replica.log_directory].request(replica)

    async def run(self) -> None:
        """Sync until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for directory, syncer in self._directories.items():
                tasks.create_task(self._run_one(directory, syncer))

    async def _run_one(self, directory: LogDirectory, syncer: _DirectorySyncer) -> None:
        while True:
            for replica in await syncer.wanted():
                # A replica that moved meanwhile is synced in its new directory: its log has one sync at a time.
                if replica.log_directory != directory:
                    self.request(replica)
                else:
                    syncer.prepare(replica)
            await syncer.sync()

    async def close(self) -> None:
        """Wait for the running syncs. Call it after `run` has ended."""
        await shut_down(*(syncer.thread for syncer in self._directories.values()))


class _DirectorySyncer:
    def __init__(self, number: int, directory: LogDirectory) -> None:
        self._directory = directory
        self.thread = ThreadPoolExecutor(1, thread_name_prefix=f"log-sync-{number}")
        self._dirty: dict[Syncable, None] = {}
        self._wanted = asyncio.Event()
        self._round: list[tuple[Syncable, Ticket]] = []
        self.counts = SyncCounts()
        self._logged_s = -LOGGED_AGAIN_AFTER_S

    def request(self, replica: Syncable) -> None:
        self._dirty[replica] = None
        self._wanted.set()

    async def wanted(self) -> list[Syncable]:
        """Return the replicas that requested a sync since the last round; wait for the first one."""
        await self._wanted.wait()
        if (gathering_s := self.counts.gathering_s) > 0:
            await asyncio.sleep(gathering_s)
        self._wanted.clear()
        dirty, self._dirty = self._dirty, {}
        return list(dirty)

    def prepare(self, replica: Syncable) -> None:
        ticket = replica.prepare_sync()
        if ticket is not None:
            self._round.append((replica, ticket))

    async def sync(self) -> None:
        """Run one round: all prepared tickets."""
        tickets, self._round = self._round, []
        if not tickets:
            return
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        self.counts.begin(len(tickets))
        alarm = loop.call_later(SLOW_S, self._log_slow, loop.time())
        running = self.thread.submit(_run_all, [ticket for _, ticket in tickets])
        running.add_done_callback(lambda ran: loop.call_soon_threadsafe(_complete_all, ran, tickets, over))
        try:
            await over
        finally:
            alarm.cancel()
        self.counts.note(len(tickets), running.result())

    def _log_slow(self, began_s: float) -> None:
        """Log a round that is not over, once in a while: a disk that hangs for good ends none."""
        if began_s - self._logged_s >= LOGGED_AGAIN_AFTER_S:
            self._logged_s = began_s
            log.warning(
                "disk slow, appends wait",
                directory=self._directory,
                sync_takes_longer_than_s=SLOW_S,
                remedy="see what else uses the disk, and its errors in the kernel's log",
            )


def _run_all(tickets: list[Ticket]) -> float:
    """Return how long it took, in seconds."""
    began_s = perf_counter()
    for ticket in tickets:
        ticket.run()
    return perf_counter() - began_s


def _complete_all(ran: Future[float], tickets: list[tuple[Syncable, Ticket]], over: asyncio.Future[None]) -> None:
    """Complete the tickets of a round, unless it was cancelled, and then end `over`, also with an error.

    The task that awaits `over` goes on one turn of the loop later; the requests that waited are answered before it.
    """
    if over.cancelled():
        return
    try:
        ran.result()
        for replica, ticket in tickets:
            replica.complete_sync(ticket)
    except Exception as error:  # noqa: BLE001  The task raises it.
        over.set_exception(error)
    else:
        over.set_result(None)
