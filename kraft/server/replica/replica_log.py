"""The log of one replica on this broker: changed step by step, synced with others on its disk, watched for damage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any, Final

from kraft.log.change import Change
from kraft.log.cleaning.cleaned_segments import CleaningResult
from kraft.log.group_commit import SyncTicket
from kraft.log.partition_log import PartitionLog
from kraft.log.segment.segment import Segment
from kraft.model.errors import Corruption, ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.server.loop.threads import BothLocks
from kraft.server.replica.log_changes import ChangeOutcome, LogChanges, LogIsChanging, StepTicket
from kraft.server.replica.move import ReplicaMove
from kraft.server.replica.surroundings import PartitionSurroundings

UNSYNCED_BYTES_MAX: Final = 64 << 20
"""With the page cache as durability so much may wait for a sync before one is asked for that nobody waits for: the next
roll has less to sync, and the next start less to read."""


class ReplicaLog(ABC):
    """Knows nothing of roles: what follows for a role from what the log has done is said by `Partition`."""

    def __init__(self, log: PartitionLog, surroundings: PartitionSurroundings) -> None:
        self.log = log
        self.files_in_use = Lock()
        """Held by a thread that makes files in the log's directory; it lets go soon after the partition is closed."""
        self.move: ReplicaMove | None = None
        """While the log is copied, to go on in another log directory. Nothing is compacted then."""
        self._surroundings = surroundings
        self._syncing: dict[SyncTicket, PartitionLog] = {}
        """The log of each sync that is under way: another one may take its place meanwhile."""
        self._unsynced_since_ms: int | None = None
        self._closed = False
        self._changes = LogChanges(
            off_loop=surroundings.off_loop,
            watching_storage=self._watching_storage,
            request_step=self._request_sync,
            went_idle=self._changes_are_over,
        )
        self.directory_in_use = BothLocks(self.files_in_use, self._changes.files_in_use)
        """To be held by a thread that takes the replica's directory away."""

    @abstractmethod
    def log_became_durable(self) -> None:
        """Tells the machine of the present role how far the log is on disk."""

    @abstractmethod
    def _changes_are_over(self) -> None:
        """A change that took steps is over: its end is known, and the next one has not begun."""

    @abstractmethod
    def _request_sync(self) -> None:
        """Asks for a call of `prepare_sync`."""

    @abstractmethod
    def _directory_failed(self, reason: str) -> None: ...

    @abstractmethod
    def _is_corrupt(self, reason: str) -> None: ...

    # --- state -----------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True while the log is served and may be changed."""
        return not self._closed and self.log.failure is None

    @property
    def log_directory(self) -> str:
        """The directory that holds the partition's."""
        return self.log.directory.rpartition("/")[0]

    @property
    def durable_end(self) -> Offset:
        """Everything below counts as being on this broker's disk."""
        return self.log.synced_end_offset if self._surroundings.sync_before_ack else self.log.log_end_offset

    def read(self, start: Offset, bytes_max: int, upper: Offset, at_least_one: bool) -> bytes:
        """Whole batches from `start`, none that ends above `upper`; of the first even more than `bytes_max` if asked.

        Raises Refusal OFFSET_OUT_OF_RANGE, and KAFKA_STORAGE_ERROR for bytes that rotted.
        """
        with self._watching_storage():
            records = self.log.read(start, bytes_max, upper)
        return records if at_least_one or len(records) <= bytes_max else b""

    @property
    def is_changing(self) -> bool:
        """The log is in the middle of a change: it may be read as the leader's, and is not to be copied or replaced.

        Its files may be ahead of what it knows of them: what is read of them by name is no proof of rot.
        """
        return self._changes.is_changing

    @property
    def current_change(self) -> ChangeOutcome[Any] | None:
        """How the change ends that the log is in the middle of; None for none."""
        return self._changes.current

    # --- changes ---------------------------------------------------------------------------------------------

    def install_cleaned(self, result: CleaningResult, segments: Sequence[Segment]) -> ChangeOutcome[list[str]]:
        """Puts a compaction's outcome in; its result are files to be removed later. Ends, or raises, with Refusal
        KAFKA_STORAGE_ERROR.
        """
        held = self.log
        return self._changes.make(lambda: held.installing_cleaned(result, segments), is_wanted=lambda: self.log is held)

    def expire_producers(self, expiration_ms: int) -> None:
        """Forgets the sequences of producers that were silent for so long."""
        self.log.expire_producers(self._surroundings.monotonic_ms(), expiration_ms)

    def _make_ready(self, change: Change[None]) -> None:
        outcome = self._changes.make(lambda: change)
        if not outcome.is_done:
            raise LogIsChanging(outcome, is_own=True)

    # --- syncs -----------------------------------------------------------------------------------------------

    def prepare_sync(self) -> SyncTicket | StepTicket | None:
        """A step of the change that is under way, or else a sync."""
        if not self.is_open:
            return None
        if self._changes.is_changing:
            return self._changes.prepare_step()
        if not self.log.dirty:
            # A roll has synced it since this sync was asked for, and there will be no other one to tell by.
            with suppress(Refusal):
                self.log_became_durable()
            return None
        self._unsynced_since_ms = None
        ticket = self.log.prepare_sync()
        self._syncing[ticket] = self.log
        return ticket

    def complete_sync(self, ticket: SyncTicket | StepTicket) -> None:
        if isinstance(ticket, StepTicket):
            self._changes.complete_step(ticket)
            if self._closed:
                self.log.release()
            elif not self._changes.is_changing:
                self._sync_what_is_left()
            return
        log = self._syncing.pop(ticket)
        if self._closed or log is not self.log:
            # The log only gives up its files now; that it takes no appends any more is no failure.
            with suppress(Refusal):
                log.complete_sync(ticket)
            return
        with suppress(Refusal), self._watching_storage():
            self.log.complete_sync(ticket, self._advance_recovery_point)
            self.log_became_durable()

    def _advance_recovery_point(self, change: Change[None]) -> None:
        self._changes.make(lambda: change)

    def _sync_if_needed(self) -> None:
        if self._surroundings.sync_before_ack and self.log.dirty:
            self._request_sync()
        else:
            self.log_became_durable()
            self._note_unsynced()

    def _sync_what_is_left(self) -> None:
        if self.is_open:
            self._sync_if_needed()

    def _note_unsynced(self) -> None:
        if not self.log.dirty:
            return
        if self._unsynced_since_ms is None:
            self._unsynced_since_ms = self._surroundings.monotonic_ms()
        is_much = self.log.unsynced_bytes >= UNSYNCED_BYTES_MAX
        if is_much or self.log.unsynced_records >= self.log.config.flush_messages:
            self._request_sync()

    def flush_if_due(self) -> None:
        """With the page cache as durability: asks for a sync when a record has waited `flush.ms` for one."""
        since_ms = self._unsynced_since_ms
        if since_ms is not None and self._surroundings.monotonic_ms() - since_ms >= self.log.config.flush_ms:
            self._request_sync()

    # --- failures --------------------------------------------------------------------------------------------

    def _admit(self, size_bytes: int) -> None:
        # Apart from the watch on the storage: a disk that is full is not broken.
        self._surroundings.admit(self.log_directory, size_bytes)

    def storage_failed(self, reason: str) -> None:
        """Whoever read or wrote beside the log found that its disk does not: the directory is out of use."""
        if not self._closed:
            self._directory_failed(reason)

    def found_corrupt(self, corruption: Corruption) -> None:
        """Whoever read the log found that it is damaged: it is served no more. Once told is enough."""
        if not self._closed:
            self._is_corrupt(str(corruption))

    @contextmanager
    def _watching_storage(self) -> Iterator[None]:
        try:
            yield
        except Refusal as refusal:
            # A log that refused an append because the disk is full is as whole as before, and has not failed.
            if refusal.error_code is ErrorCode.KAFKA_STORAGE_ERROR and self.log.failure is not None:
                self._directory_failed(refusal.message)
            raise
        except Corruption as corruption:
            self.found_corrupt(corruption)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(corruption)) from corruption
