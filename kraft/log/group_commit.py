"""Making appended batches durable, away from the loop that appends them.

One sync serves every batch that was written before it began. The loop prepares a ticket, another thread runs it, and
the loop completes it; meanwhile the log goes on. There is one ticket at a time: a kernel reports a lost write to one
sync only, so a second sync beside the one that failed would look as if all were well.
"""

from __future__ import annotations

from kraft.log.disk import File
from kraft.model.ids import Offset


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
