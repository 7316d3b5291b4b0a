"""One replica on its way from one log directory of this broker to another: the copy, and how it takes its place.

The copy is a log of its own, to which the original's batches are appended as a follower appends its leader's. The
original goes on meanwhile, and what is cut off it is cut off the copy. `next_work` gives out what takes time, a piece
at a time, for a thread; the rest is done on the loop, in one step that nothing comes between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.log.disk import Disk
from kraft.log.log_config import LogConfig
from kraft.log.partition_log import PartitionLog
from kraft.model.ids import Offset, TopicId, TopicPartition
from kraft.server.replica import copies
from kraft.server.replica.store import DirectoryFailed

PIECE_BYTES: Final = 256 << 10
"""What is read on the loop at once. Even where batches are tiny others wait for it a few milliseconds only."""
LAST_BYTES_MAX: Final = 512 << 10
"""What is copied at most while nothing else can happen. More is left to the thread once again."""

Read = Callable[[Offset, int], bytes]
"""Whole batches of the original from that offset, about so many bytes. Raises Refusal."""


class ReplicaMove:
    """`original` is in all calls the log that the partition has until the move is over."""

    def __init__(
        self, disk: Disk, *, topic_partition: TopicPartition, topic_id: TopicId, destination: str, move_id: str
    ) -> None:
        self.destination = destination
        """A log directory."""
        self.is_decided = False
        """True once the copy may be the replica: it is never removed from then on."""
        self._disk = disk
        self._topic_partition = topic_partition
        self._topic_id = topic_id
        self.move_id = move_id
        self._copy: PartitionLog | None = None
        self._cut: Offset | None = None
        self._followed: Offset | None = None
        self._is_near = False
        self._log_end, self._size_bytes = Offset(0), 0

    # --- facts -----------------------------------------------------------------------------------------------

    @property
    def log_end_offset(self) -> Offset:
        """Of the copy, as last noted."""
        return self._log_end

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def failure(self) -> str | None:
        """Why the destination cannot be written to any more; None while it can."""
        return None if self._copy is None else self._copy.failure

    def work_is_done(self) -> None:
        """To be called on the loop when what `next_work` gave out has succeeded."""
        if self._cut == self._followed:
            self._cut = None
        self._followed = None
        if self._copy is not None:
            # For those who ask while the thread is at work.
            self._log_end, self._size_bytes = self._copy.log_end_offset, self._copy.size_bytes

    # --- the copy --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The directory of the copy. Blocks. Raises DirectoryFailed."""
        copies.begin_copy(self._disk, self.destination, self._topic_partition, self._topic_id, self.move_id)

    def cut_back_to(self, offset: Offset) -> None:
        """The original drops, now or soon, every batch that reaches `offset`."""
        self._cut = offset if self._cut is None else min(offset, self._cut)

    def next_work(self, original: PartitionLog, read: Read) -> Callable[[], None] | None:
        """What is to be done next, in a thread; None when so little is left that `catches_up` may do it.

        Raises Refusal; so does the work, and OSError and Corruption when it opens the copy.
        """
        copy = self._copy
        if copy is None:
            config = original.config
            return lambda: self._open(config)
        if self._cut is not None:
            cut = self._cut
            return lambda: self._follow_cut(copy, cut)
        end, start, target = copy.log_end_offset, original.log_start_offset, original.log_end_offset
        if end < start:
            return lambda: self._begin_at(copy, start)
        if self._is_near:
            return None
        records = read(end, PIECE_BYTES) if end < target else b""
        # Otherwise it could not be told where to go on: compaction keeps the last batch of a log for that.
        assert records or end == target, f"nothing is read of {self._topic_partition} from offset {end} on"
        return lambda: self._append(copy, records, target)

    def _open(self, config: LogConfig) -> None:
        path = f"{self.destination}/{copies.copy_name(self._topic_partition, self.move_id)}"
        self._copy = PartitionLog.open(self._disk, path, config, self._topic_partition)

    def _follow_cut(self, copy: PartitionLog, cut: Offset) -> None:
        self._is_near = False
        copy.truncate_to(cut)
        self._followed = cut

    def _begin_at(self, copy: PartitionLog, start: Offset) -> None:
        """The original begins behind all that was copied."""
        self._is_near = False
        copy.truncate_fully_and_start_at(start)

    def _append(self, copy: PartitionLog, records: bytes, target: Offset) -> None:
        if records:
            copy.append_as_follower(records)
        if copy.log_end_offset >= target:
            # So that there is little to make durable later, on the loop.
            copy.settle()
            self._is_near = True

    def release(self) -> None:
        """Closes the files, unless they are the replica's. No work may be under way."""
        if self._copy is not None and not self.is_decided:
            self._copy.release()

    def remove(self) -> None:
        """Blocks. Raises DirectoryFailed."""
        copies.remove_copy(self._disk, self.destination, self._topic_partition, self.move_id)

    # --- the swap --------------------------------------------------------------------------------------------

    def catches_up(self, original: PartitionLog, read: Read) -> bool:
        """Copies the rest of the original, if it is little. True when the copy is its equal now, and durable.

        Until the copy is in place nothing else may happen to the original. Raises Refusal.
        """
        copy, left = self._copy, LAST_BYTES_MAX
        assert copy is not None, "nothing is copied yet"
        if self._cut is not None or copy.log_end_offset < original.log_start_offset:
            return False
        while copy.log_end_offset < original.log_end_offset and left > 0:
            records = read(copy.log_end_offset, min(left, PIECE_BYTES))
            copy.append_as_follower(records)
            left -= max(1, len(records))
        self._is_near = copy.log_end_offset == original.log_end_offset
        if self._is_near:
            copy.take_over(original)
        return self._is_near

    def set_original_aside(self, directory: str) -> None:
        """From here on the copy is the replica, whatever happens. Raises DirectoryFailed.

        `is_decided` stays False where the disk was too full even for that, and nothing happened.
        """
        self.is_decided = True
        try:
            copies.set_original_aside(self._disk, directory, self._topic_partition, self.move_id)
        except DirectoryFailed as failure:
            self.is_decided = not (failure.is_full and self._disk.exists(f"{directory}/{self._topic_partition}"))
            raise

    def take_copy(self) -> PartitionLog:
        """To go on with from here on."""
        assert self._copy is not None, "there is a copy by now"
        return self._copy

    def put_copy_in_place(self) -> None:
        """Raises DirectoryFailed."""
        copies.put_copy_in_place(self._disk, self.destination, self._topic_partition, self.move_id)
        self.take_copy().moved_to(f"{self.destination}/{self._topic_partition}")

    def remove_original(self, directory: str) -> None:
        """Blocks. Raises DirectoryFailed."""
        copies.remove_original(self._disk, directory, self._topic_partition, self.move_id)
