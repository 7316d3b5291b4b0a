"""The move of one replica from one log directory of this broker to another: the copy and the swap.

The copy is a separate log, to which the original's batches are appended as a follower appends its leader's. The
original stays in use meanwhile, and a truncation of it is repeated on the copy. `next_work` returns the slow work,
a piece at a time, for a thread; the rest is done on the loop in one uninterrupted step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from kraft.log.disk import Disk, OpenDirectory
from kraft.log.partition_log import PartitionLog
from kraft.log.topic_config import TopicConfig
from kraft.model.callbacks import Callback
from kraft.model.ids import LogDirectory, Offset, TopicId, TopicPartition
from kraft.server.replica import move_directories
from kraft.server.replica.replica_directories import DirectoryFailed

PIECE_BYTES: Final = 256 << 10
"""Bytes read on the loop at once. Even with tiny batches this blocks the loop for a few milliseconds only."""
LAST_BYTES_MAX: Final = 512 << 10
"""Bytes copied at most on the loop, where nothing else runs meanwhile. If there are more, the thread copies again."""

Read = Callable[[Offset, int], bytes]
"""Returns whole batches of the original from that offset, about that many bytes. Raises Refusal."""


class ReplicaMove:
    """Move of one replica. In all calls `original` is the log that the partition has until the move is over."""

    def __init__(
        self, disk: Disk, *, topic_partition: TopicPartition, topic_id: TopicId, destination: LogDirectory, move_id: str
    ) -> None:
        self.destination = destination
        """The log directory that the replica moves to."""
        self.is_decided = False
        """True once the copy may be the replica: from then on it is never removed."""
        self._disk = disk
        self._topic_partition = topic_partition
        self._topic_id = topic_id
        self.move_id = move_id
        self._copy: PartitionLog | None = None
        self._truncate_at: Offset | None = None
        self._truncated_at: Offset | None = None
        self._is_near = False
        self._log_end, self._size_bytes = Offset(0), 0

    # --- facts -----------------------------------------------------------------------------------------------

    @property
    def log_end_offset(self) -> Offset:
        """Log end of the copy after its latest work."""
        return self._log_end

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def failure(self) -> str | None:
        """Reason why the destination cannot be written to; None while it can."""
        return None if self._copy is None else self._copy.failure

    def work_is_done(self) -> None:
        """Update the state on the loop after the work of `next_work` has succeeded."""
        if self._truncate_at == self._truncated_at:
            self._truncate_at = None
        self._truncated_at = None
        if self._copy is not None:
            # Kept here for readers on the loop while the thread changes the copy.
            self._log_end, self._size_bytes = self._copy.log_end_offset, self._copy.size_bytes

    # --- the copy --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Create the directory of the copy. Blocks. Raises DirectoryFailed."""
        move_directories.begin_copy(self._disk, self.destination, self._topic_partition, self._topic_id, self.move_id)

    def truncate_to(self, offset: Offset) -> None:
        """Truncate the copy too: the original drops, now or soon, every batch that reaches `offset`."""
        self._truncate_at = offset if self._truncate_at is None else min(offset, self._truncate_at)

    def next_work(self, original: PartitionLog, read: Read) -> Callback | None:
        """Return the next work for a thread; None when so little is left that `catches_up` may do it.

        Raises Refusal. The work raises Refusal too, and OSError and Corruption when it opens the copy.
        """
        copy = self._copy
        if copy is None:
            config = original.config
            return lambda: self._open(config)
        if self._truncate_at is not None:
            offset = self._truncate_at
            return lambda: self._truncate(copy, offset)
        end, start, target = copy.log_end_offset, original.log_start_offset, original.log_end_offset
        if end < start:
            return lambda: self._begin_at(copy, start)
        if self._is_near:
            return None
        records = read(end, PIECE_BYTES) if end < target else b""
        # Compaction keeps the last batch of a log, so a read below the log end is never empty.
        assert records or end == target, f"nothing was read of {self._topic_partition} from offset {end}"
        return lambda: self._append(copy, records, target)

    def _open(self, config: TopicConfig) -> None:
        path = f"{self.destination}/{move_directories.copy_name(self._topic_partition, self.move_id)}"
        self._copy = PartitionLog.open(self._disk, path, config, self._topic_partition)

    def _truncate(self, copy: PartitionLog, offset: Offset) -> None:
        self._is_near = False
        copy.truncate_to(offset)
        self._truncated_at = offset

    def _begin_at(self, copy: PartitionLog, start: Offset) -> None:
        """Restart the copy at `start`: the original's log start is past everything copied."""
        self._is_near = False
        copy.truncate_fully_and_start_at(start)

    def _append(self, copy: PartitionLog, records: bytes, target: Offset) -> None:
        if records:
            copy.append_as_follower(records)
        if copy.log_end_offset >= target:
            # Sync here, so that little is left to sync later on the loop.
            copy.settle()
            self._is_near = True

    def release(self) -> None:
        """Close the copy's files, unless the copy is the replica. No work may be running."""
        if self._copy is not None and not self.is_decided:
            self._copy.release()

    def remove(self) -> None:
        """Remove the copy. Blocks. Raises DirectoryFailed."""
        move_directories.remove_copy(self._disk, self.destination, self._topic_partition, self.move_id)

    # --- the swap --------------------------------------------------------------------------------------------

    def catches_up(self, original: PartitionLog, read: Read) -> bool:
        """Copy the rest of the original, if it is little. Return True if the copy is now equal to it, and durable.

        The original must not change until the copy is in place. Raises Refusal.
        """
        copy, left = self._copy, LAST_BYTES_MAX
        assert copy is not None, "nothing is copied yet"
        if self._truncate_at is not None or copy.log_end_offset < original.log_start_offset:
            return False
        while copy.log_end_offset < original.log_end_offset and left > 0:
            records = read(copy.log_end_offset, min(left, PIECE_BYTES))
            copy.append_as_follower(records)
            left -= max(1, len(records))
        self._is_near = copy.log_end_offset == original.log_end_offset
        if self._is_near:
            copy.take_over(original)
        return self._is_near

    @contextmanager
    def opened_directories(self, source: LogDirectory) -> Iterator[tuple[OpenDirectory, OpenDirectory]]:
        """Hold both log directories open: nothing may be lacking between the steps. Raises DirectoryFailed."""
        with (
            move_directories.opened(self._disk, source) as original,
            move_directories.opened(self._disk, self.destination) as copy,
        ):
            yield original, copy

    def rename_original(self, directory: LogDirectory, held: OpenDirectory) -> None:
        """Rename the original: from then on the copy is the replica. Raises DirectoryFailed.

        `is_decided` stays False if the disk was too full for the rename, and nothing changed.
        """
        self.is_decided = True
        try:
            move_directories.rename_original(self._disk, directory, self._topic_partition, self.move_id, held)
        except DirectoryFailed as failure:
            self.is_decided = not (failure.is_full and self._disk.exists(f"{directory}/{self._topic_partition}"))
            raise

    def take_copy(self) -> PartitionLog:
        """Return the copy's log, which replaces the original."""
        assert self._copy is not None, "a copy was made before the swap"
        return self._copy

    def put_copy_in_place(self, held: OpenDirectory) -> None:
        """Rename the copy to the replica's own name. Raises DirectoryFailed."""
        move_directories.put_copy_in_place(self._disk, self.destination, self._topic_partition, self.move_id, held)
        self.take_copy().moved_to(f"{self.destination}/{self._topic_partition}")

    def remove_original(self, directory: LogDirectory) -> None:
        """Remove the renamed original. Blocks. Raises DirectoryFailed."""
        move_directories.remove_original(self._disk, directory, self._topic_partition, self.move_id)
