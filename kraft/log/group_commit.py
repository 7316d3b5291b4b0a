"""Making appended batches durable, away from the loop that appends them.

One sync serves every batch that was written before it began. The loop prepares a ticket, another thread runs it, and
the loop completes it; meanwhile the log goes on. There is one ticket at a time: a kernel reports a lost write to one
sync only, so a second sync beside the one that failed would look as if all were well.
"""

from __future__ import annotations

from typing import Final

from kraft.log.disk import File
from kraft.model.ids import Offset

CHECKPOINT_INTERVAL_BYTES: Final = 256 << 20
"""After a crash no more than about so much is read of what a sync had made durable.

Less would make recovery quicker and appends slower: a checkpoint takes milliseconds, on a busy disk tens of them.
"""


class SyncTicket:
    """One sync of one file. `run` may be called in any thread, and touches nothing but the file."""

    def __init__(self, file: File, end_offset: Offset) -> None:
        self.file = file
        self.end_offset = end_offset
        """What will be durable when this sync succeeded. The loop lowers it when the log is truncated meanwhile."""
        self.error: OSError | None = None
        self.is_run = False
        self.closes_file = False
        """The file was given up while the sync ran; it is closed when the ticket is completed."""

    def run(self) -> None:
        """Blocks until the file is durable. A failure is kept, for `PartitionLog.complete_sync` to act on."""
        try:
            self.file.sync()
        except OSError as error:
            self.error = error
        self.is_run = True


class GroupCommit:
    """How far a log is durable, and the ticket that is under way, if one is. The loop's only."""

    # Counted at every append.
    __slots__ = ("_ticket", "bytes_since_checkpoint", "synced_end", "unsynced_bytes", "unsynced_records")

    def __init__(self) -> None:
        self.synced_end = Offset(0)
        """Everything below is durable."""
        self.unsynced_records = 0
        self.unsynced_bytes = 0
        """Appended since the last ticket was prepared."""
        self.bytes_since_checkpoint = 0
        self._ticket: SyncTicket | None = None

    def prepare(self, file: File, log_end: Offset) -> SyncTicket:
        assert self._ticket is None, "the sync before has to be completed first"
        self._ticket = SyncTicket(file, log_end)
        self.unsynced_records = self.unsynced_bytes = 0
        return self._ticket

    def take_back(self, ticket: SyncTicket) -> OSError | None:
        """The ticket was run. Its error, or None; whether its end counts as durable is for the log to say."""
        assert ticket is self._ticket, "this is not the ticket that was prepared last"
        assert ticket.is_run, "the ticket has to be run first"
        self._ticket = None
        if ticket.closes_file:
            ticket.file.close()
        return ticket.error

    def completed(self, ticket: SyncTicket) -> bool:
        """All up to the ticket's end is durable; true when so much is that the recovery point should follow."""
        self.synced_end = max(self.synced_end, ticket.end_offset)
        is_due = self.bytes_since_checkpoint >= CHECKPOINT_INTERVAL_BYTES
        if is_due:
            self.bytes_since_checkpoint = 0
        return is_due

    def durable_up_to(self, end: Offset) -> None:
        """All up to `end`, where the log ends, was synced beside the ticket. Raises the ticket's OSError."""
        ticket = self._ticket
        if ticket is None:
            self.synced_end = end
            return
        # An error of the disk may have been reported to the ticket's sync instead of ours: both have to succeed.
        if ticket.error is not None:
            raise ticket.error
        self.synced_end = end if ticket.is_run else min(self.synced_end, end)
        ticket.end_offset = end

    def begin_anew(self, offset: Offset) -> None:
        """The log is empty and begins at `offset`."""
        self.synced_end = offset
        if self._ticket is not None:
            # Its file is gone with all it held; what it says of the disk still counts.
            self._ticket.end_offset = offset

    def rolled(self) -> None:
        """All that was appended is in a segment that was synced."""
        self.unsynced_records = self.unsynced_bytes = 0
        if self._ticket is None:
            self.bytes_since_checkpoint = 0

    def close_file(self, file: File) -> None:
        """Now, or when the ticket that syncs it is taken back."""
        if self._ticket is not None and self._ticket.file is file:
            self._ticket.closes_file = True
        else:
            file.close()
