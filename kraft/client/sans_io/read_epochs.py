"""Leader epochs of what a consumer has read, used to check whether a new leader still has it (KIP-320).

A leader epoch numbers the leaders of a partition, and every batch has the epoch of the leader that appended it. Two
logs that both hold an offset in the same epoch are the same up to that offset. After an unclean election the new
leader's log may end earlier than what was read, or hold other records at the same offsets, in another epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

UNKNOWN: Final = -1


@dataclass(slots=True)
class ReadEpochs:
    """Leader epochs read from one partition: `entries` are (epoch, first offset read of it), both ascending."""

    entries: list[tuple[int, int]] = field(default_factory=list)

    @property
    def latest(self) -> int:
        """The leader epoch of the last record read; -1 if unknown."""
        return self.entries[-1][0] if self.entries else UNKNOWN

    def read(self, epoch: int, offset: int) -> None:
        """Note that a batch of this epoch was read at `offset`."""
        if epoch < 0:
            return
        # A position that was looked up has the epoch of its leader; the records there may be of an older one.
        while self.entries and self.entries[-1][0] > epoch:
            self.entries.pop()
        if epoch > self.latest:
            self.entries.append((epoch, offset))

    def up_to(self, offset: int) -> ReadEpochs:
        """Return the epochs as if nothing at or after `offset` had been read."""
        return ReadEpochs([entry for entry in self.entries if entry[1] <= offset])

    def first_difference(self, read_to: int, epoch: int, end_offset: int) -> int:
        """Return the first offset at which the leader's log differs from what was read; `read_to` if there is none.

        The leader was asked for the end of `latest`. `epoch` is the largest epoch up to `latest` in its log, and
        `end_offset` the offset after that epoch's last record. The leader has no records of the epochs in between.
        """
        not_at_leader = min((offset for each, offset in self.entries if each > epoch), default=read_to)
        return min(end_offset, not_at_leader, read_to)
