"""Group commit: one sync, off the event loop, makes all batches durable that were appended before it began.

The loop prepares a ticket, another thread runs it, and the loop completes it; appends go on meanwhile. There is one
ticket at a time: a kernel reports a lost write to one sync only, so a second sync beside the one that failed would
seem to succeed.
"""

from __future__ import annotations

from typing import Final

from kraft.log.disk import File
from kraft.model.ids import Offset

CHECKPOINT_INTERVAL_BYTES: Final = 256 << 20
"""Bytes that become durable between two checkpoints; recovery reads about that many durable bytes again.

A smaller value makes recovery faster and appends slower: a checkpoint takes milliseconds, on a busy disk tens of them.
"""


class SyncTicket:
    """One sync of one file. Any thread may call `run`, which touches nothing but the file."""

    def __init__(self, file: File, end_offset: Offset) -> None:
        self.file = file
        self.end_offset = end_offset
        """Everything below is durable once this sync succeeds. The loop lowers it if the log is truncated meanwhile."""
        self.error: OSError | None = None
        self.has_run = False
        self.closes_file = False
        """The log dropped the file while the sync ran; the file is closed when the ticket is completed."""

    def run(self) -> None:
        """Block until the file is durable. An error is kept for `PartitionLog.complete_sync` to handle."""
        try:
            self.file.sync()
        except OSError as error:
            self.error = error
        self.has_run = True


class GroupCommit:
    """Durable end of a log, and its sync ticket under way, if any. Used on the loop only."""

    # Updated by every append.
    __slots__ = ("_ticket", "bytes_since_checkpoint", "synced_end", "unsynced_bytes", "unsynced_records")

    def __init__(self) -> None:
        self.synced_end = Offset(0)
        """Offset below which everything is durable."""
        self.unsynced_records = 0
        self.unsynced_bytes = 0
        """Bytes appended since the last ticket was prepared; likewise the records."""
        self.bytes_since_checkpoint = 0
        self._ticket: SyncTicket | None = None

    def prepare(self, file: File, log_end: Offset) -> SyncTicket:
        assert self._ticket is None, "the previous sync has to be completed first"
        self._ticket = SyncTicket(file, log_end)
        self.unsynced_records = self.unsynced_bytes = 0
        return self._ticket

    def finish(self, ticket: SyncTicket) -> OSError | None:
        """End the ticket, which has run, and return its error or None. The log decides whether to `mark_synced`."""
        assert ticket is self._ticket, "this is not the ticket that was prepared last"
        assert ticket.has_run, "the ticket has to run first"
        self._ticket = None
        if ticket.closes_file:
            ticket.file.close()
        return ticket.error

    def mark_synced(self, ticket: SyncTicket) -> bool:
        """Mark everything below the ticket's end as durable. Return True if a checkpoint is due."""
        self.synced_end = max(self.synced_end, ticket.end_offset)
        is_due = self.bytes_since_checkpoint >= CHECKPOINT_INTERVAL_BYTES
        if is_due:
            self.bytes_since_checkpoint = 0
        return is_due

    def mark_durable_up_to(self, end: Offset) -> None:
        """Note that the log, which ends at `end`, was synced outside of a ticket. Raises the ticket's OSError."""
        ticket = self._ticket
        if ticket is None:
            self.synced_end = end
            return
        # The kernel may have reported a disk error to the ticket's sync instead of this one: both have to succeed.
        if ticket.error is not None:
            raise ticket.error
        self.synced_end = end if ticket.has_run else min(self.synced_end, end)
        ticket.end_offset = end

    def restart_at(self, offset: Offset) -> None:
        """Note that the log is empty and begins at `offset`."""
        self.synced_end = offset
        if self._ticket is not None:
            # Its file and records are gone; an error of its sync still counts.
            self._ticket.end_offset = offset

    def note_roll(self) -> None:
        """Note that everything appended is in a segment that was synced."""
        self.unsynced_records = self.unsynced_bytes = 0
        if self._ticket is None:
            self.bytes_since_checkpoint = 0

    def close_file(self, file: File) -> None:
        """Close the file now, or, if a ticket syncs it, when that ticket is finished."""
        if self._ticket is not None and self._ticket.file is file:
            self._ticket.closes_file = True
        else:
            file.close()
