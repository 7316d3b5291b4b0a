"""The log of one replica on this broker: its changes in steps, its syncs, and its failures."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import Any, Final, NoReturn, Protocol

from kraft.log.change import Change
from kraft.log.cleaning.cleaned_segments import CleaningResult
from kraft.log.format.record_batch import Buffer, split
from kraft.log.group_commit import SyncTicket
from kraft.log.partition_log import PartitionLog
from kraft.log.segment.lookup import AbortedLookUp
from kraft.log.segment.segment import Segment
from kraft.log.transactions.aborted import AbortedTxn
from kraft.model.errors import Corruption, ErrorCode, Refusal
from kraft.model.ids import LogDirectory, Offset
from kraft.server.loop.threads import BothLocks
from kraft.server.replica.log_changes import ChangeOutcome, LogChanges, LogIsChanging, StepTicket
from kraft.server.replica.partition_services import PartitionServices
from kraft.server.replica.replica_move import ReplicaMove

UNSYNCED_BYTES_MAX: Final = 64 << 20
"""Unsynced bytes at which a sync is requested with log.durability=page-cache, although no request waits for it: the
next roll has less to sync, and the next start less to read."""


class LogUser(Protocol):
    """The replica that a log belongs to."""

    def log_became_durable(self) -> None:
        """Report to the machine of the current role how far the log is on disk."""

    def log_change_ended(self) -> None:
        """Handle the end of a change that took steps, before the next change begins."""

    def log_directory_failed(self, reason: str) -> None:
        """Report that the disk failed to read or write: the log's directory goes offline."""

    def log_is_corrupt(self, reason: str) -> None:
        """Report that durable bytes have changed: this replica goes offline."""


class ReplicaLog:
    """Log of one replica, whatever its role."""

    def __init__(self, log: PartitionLog, services: PartitionServices, user: LogUser) -> None:
        self.log = log
        self._user = user
        self.files_in_use = Lock()
        """Held by a thread that makes files in the log's directory; released soon after the partition is closed."""
        self.move: ReplicaMove | None = None
        """Set while the log is copied to another log directory. It is not compacted then."""
        self._services = services
        self._syncing: dict[SyncTicket, PartitionLog] = {}
        """Log of each running sync: a move may replace `log` meanwhile."""
        self._unsynced_since_ms: int | None = None
        self._closed = False
        self.watching_storage = _StorageWatch(self)
        """Context in which an error of the log is reported."""
        self.changes = LogChanges(
            watching_storage=lambda: self.watching_storage,
            request_step=self._request_sync,
            went_idle=user.log_change_ended,
            must_wait=self._write_would_wait,
        )
        self.directory_in_use = BothLocks(self.files_in_use, self.changes.files_in_use)
        """Held by a thread that moves or removes the replica's directory."""

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True while the log is served and may be changed."""
        return not self._closed and self.log.failure is None

    @property
    def log_directory(self) -> LogDirectory:
        """The log directory that has the partition's directory."""
        return LogDirectory(self.log.parent)

    @property
    def durable_end(self) -> Offset:
        """Offset below which everything counts as being on this broker's disk."""
        return self.log.synced_end_offset if self._services.sync_before_ack else self.log.log_end_offset

    def read(self, start: Offset, bytes_max: int, upper: Offset, at_least_one: bool) -> bytes:
        """Return whole batches from `start`, none that ends above `upper`.

        With `at_least_one` the first batch may exceed `bytes_max`. Raises Refusal OFFSET_OUT_OF_RANGE, and
        KAFKA_STORAGE_ERROR for corrupt bytes.
        """
        with self.watching_storage:
            records = self.log.read(start, bytes_max, upper)
        return records if at_least_one or len(records) <= bytes_max else b""

    def aborted_in(self, start: Offset, records: Buffer) -> list[AbortedTxn] | AbortedLookUp:
        """Return the aborted transactions in batches that `read` returned from `start`.

        Only those whose producer wrote a batch there: a client needs no others, and any number may have been open then.
        Returns the rest of the look-up if it takes long. Raises Refusal KAFKA_STORAGE_ERROR if an index cannot be read.
        """
        transactions = self.log.transactions
        if not records or not transactions.may_have_aborted(start):
            return []
        headers = [header for header, _ in split(records)]
        producers = {header.producer_id for header in headers if header.is_transactional and not header.is_control}
        if not producers:
            return []
        with self.watching_storage:
            return transactions.look_up_aborted(start, headers[-1].next_offset, producers)

    def aborted_look_up_failed(self, error: OSError | ValueError) -> NoReturn:
        """Report that an index could not be read. Raises Refusal KAFKA_STORAGE_ERROR."""
        with self.watching_storage:
            self.log.transactions.look_up_failed(error)
        raise AssertionError("a failed look-up is refused")

    @property
    def is_changing(self) -> bool:
        """True during a change of the log: the leader may read it, but it must not be copied or replaced.

        Its files may be ahead of its state: bytes read from them by name are no proof of corruption.
        """
        return self.changes.is_changing

    @property
    def current_change(self) -> ChangeOutcome[Any] | None:
        """Outcome of the change that is in progress; None for none."""
        return self.changes.current

    # --- changes ---------------------------------------------------------------------------------------------

    def install_cleaned(self, result: CleaningResult, segments: Sequence[Segment]) -> ChangeOutcome[list[str]]:
        """Replace segments by compacted ones; the result is the files to be removed later.

        Ends with, or raises, Refusal KAFKA_STORAGE_ERROR.
        """
        held = self.log
        return self.changes.make(lambda: held.installing_cleaned(result, segments), is_wanted=lambda: self.log is held)

    def expire_producers(self, expiration_ms: int) -> None:
        """Drop the state of producers that sent nothing for this long."""
        self.log.expire_producers(self._services.monotonic_ms(), expiration_ms)

    def _write_would_wait(self) -> bool:
        """Return whether the kernel may let a write wait for the running sync, for long."""
        is_syncing = any(log is self.log and not ticket.has_run for ticket, log in self._syncing.items())
        return is_syncing and self._services.holds_writes(self.log_directory)

    def check_accepts(self) -> None:
        """Raise LogIsChanging if an append has to wait: for a change, or for a sync that would hold the event loop."""
        change = self.changes.under_way
        if change is None and self._write_would_wait():
            outcome = self.changes.make(_nothing)
            change = None if outcome.is_done else outcome
        if change is not None:
            raise LogIsChanging(change, is_own=False)

    def make_ready(self, change: Change[None]) -> None:
        """Make a change that an append needs. Raises LogIsChanging if it takes steps."""
        held = self.log
        outcome = self.changes.make(lambda: change, is_wanted=lambda: self.log is held)
        if not outcome.is_done:
            raise LogIsChanging(outcome, is_own=True)

    # --- syncs -----------------------------------------------------------------------------------------------

    def prepare_sync(self) -> SyncTicket | StepTicket | None:
        """Return a step of the change in progress, or else a sync."""
        if not self.is_open:
            return None
        if self.changes.is_changing:
            return self.changes.prepare_step()
        if not self.log.dirty:
            # A roll has synced the log since this sync was requested, and no other sync follows to report it.
            with suppress(Refusal):
                self._user.log_became_durable()
            return None
        self._unsynced_since_ms = None
        ticket = self.log.prepare_sync()
        self._syncing[ticket] = self.log
        return ticket

    def complete_sync(self, ticket: SyncTicket | StepTicket) -> None:
        if isinstance(ticket, StepTicket):
            self.changes.complete_step(ticket)
            if self._closed:
                self.log.release()
            elif not self.changes.is_changing:
                self.sync_if_open()
            return
        log = self._syncing.pop(ticket)
        self._sync_ended(ticket, log)
        self.changes.go_on()

    def _sync_ended(self, ticket: SyncTicket, log: PartitionLog) -> None:
        if self._closed or log is not self.log:
            # The log only closes its files now; a refusal because it is closed is no failure.
            with suppress(Refusal):
                log.complete_sync(ticket, self._advance_recovery_point)
            return
        with suppress(Refusal), self.watching_storage:
            self.log.complete_sync(ticket, self._advance_recovery_point)
            self._user.log_became_durable()

    def _advance_recovery_point(self, change: Change[None]) -> None:
        self.changes.make(lambda: change)

    def sync_if_needed(self) -> None:
        """Request a sync if one is waited for; otherwise report at once what counts as durable."""
        if not self._services.sync_before_ack:
            self._user.log_became_durable()
            self._note_unsynced()
        elif self.log.dirty:
            self._request_sync()
        else:
            self._user.log_became_durable()

    def sync_if_open(self) -> None:
        if self.is_open:
            self.sync_if_needed()

    def _note_unsynced(self) -> None:
        log = self.log
        if not log.dirty:
            return
        if self._unsynced_since_ms is None:
            self._unsynced_since_ms = self._services.monotonic_ms()
        if log.has_unsynced(UNSYNCED_BYTES_MAX):
            self._request_sync()

    def flush_if_due(self) -> None:
        """Request a sync if a record has waited `flush.ms` for one, with log.durability=page-cache."""
        since_ms = self._unsynced_since_ms
        if since_ms is not None and self._services.monotonic_ms() - since_ms >= self.log.config.flush_ms:
            self._request_sync()

    def _request_sync(self) -> None:
        self._services.request_sync(self)

    # --- the end, and another log directory ------------------------------------------------------------------

    def closing(self) -> Change[None]:
        """Close the log; everything is durable afterwards, or the storage has failed.

        No other thread may sync the log or run a step of its changes from now on.
        """
        yield from self.changes.finish()
        self._closed = True
        with suppress(Refusal), self.watching_storage:
            yield from self.log.closing()

    def abandon(self) -> None:
        """Begin no further write, and close the files as soon as no step is running."""
        self._closed = True
        if self.changes.abandon():
            self.log.release()

    def moved(self, log: PartitionLog) -> None:
        """Replace the log by an equal, durable one in another log directory."""
        self.log, before = log, self.log
        before.release()
        self.move = None
        self._unsynced_since_ms = None
        # What waited for a sync of the other file: on a disk that hangs, that never ends.
        self.changes.go_on()

    # --- failures --------------------------------------------------------------------------------------------

    def admit(self, size_bytes: int) -> None:
        """Raise Refusal if the disk has no room for that many bytes. A full disk has not failed."""
        self._services.admit(self.log_directory, size_bytes)

    def storage_failed(self, reason: str) -> None:
        """Report a read or write error outside the log's own work: its log directory goes offline."""
        if not self._closed:
            self._user.log_directory_failed(reason)

    def found_corrupt(self, corruption: Corruption) -> None:
        """Report corruption that a reader of the log found: the replica goes offline. Later reports are ignored."""
        if not self._closed:
            self._user.log_is_corrupt(str(corruption))

    def log_raised(self, error: BaseException) -> None:
        """Report what an error of the log means for the replica. Raises the Refusal that corruption becomes."""
        if isinstance(error, Corruption):
            self.found_corrupt(error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if isinstance(error, Refusal) and error.error_code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._log_refused(error)

    def _log_refused(self, refusal: Refusal) -> None:
        # A log that refused an append because the disk is full is intact and has not failed.
        if self.log.failure is not None:
            self._user.log_directory_failed(refusal.message)


def _nothing() -> Change[None]:
    """What an append waits for that only waits for its turn."""
    yield from ()


class _StorageWatch:
    """Context in which errors of a replica's log are reported. One object for all of them: it has no state."""

    __slots__ = ("_replica",)

    def __init__(self, replica: ReplicaLog) -> None:
        self._replica = replica

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._replica.log_raised(error)
