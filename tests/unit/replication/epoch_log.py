"""A log that is nothing but the epochs of its records."""

from __future__ import annotations

from bisect import bisect_right

from kraft.model.ids import LeaderEpoch, Offset


class EpochLog:
    """`epochs[n]` is that of the record at `log_start_offset + n`."""

    def __init__(self, *epochs: int, log_start_offset: int = 0) -> None:
        self.epochs = list(epochs)
        self.log_start_offset = log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.epochs)

    def epoch_at(self, offset: Offset, /) -> int:
        return (
            self.epochs[offset - self.log_start_offset] if self.log_start_offset <= offset < self.log_end_offset else -1
        )

    def end_offset_for_epoch(self, epoch: LeaderEpoch, /) -> tuple[int, int]:
        """Answer as Kafka's epoch cache does: nothing for an epoch above all known ones."""
        if not self.epochs or epoch > self.epochs[-1]:
            return -1, -1
        count = bisect_right(self.epochs, int(epoch))
        return self.epochs[count - 1] if count else int(epoch), self.log_start_offset + count

    def truncate_to(self, offset: int) -> None:
        del self.epochs[max(0, offset - self.log_start_offset) :]
