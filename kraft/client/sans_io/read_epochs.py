"""Leader epochs of what a consumer has read, and whether a new leader still has it (KIP-320).

A leader epoch numbers the leaders of a partition, and every batch bears the epoch of the leader that appended it. Two
logs that both hold an offset in the same epoch are the same up to that offset. After an unclean election the new
leader's log may end earlier than what was read, or hold other records at the same offsets, in another epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

UNKNOWN: Final = -1


@dataclass(slots=True)
class ReadEpochs:
    """Leader epochs read of one partition: `entries` are epochs with the first offset read of each, both ascending."""

    entries: list[tuple[int, int]] = field(default_factory=list)

    @property
    def latest(self) -> int:
        """Epoch of the last record read; -1 when it is not known."""
        return self.entries[-1][0] if self.entries else UNKNOWN

    def read(self, epoch: int, offset: int) -> None:
        """A batch of that epoch begins at `offset`, where reading goes on."""
        if epoch < 0:
            return
        # A position that was looked up comes with the epoch of its leader, and what is read there may be older.
        while self.entries and self.entries[-1][0] > epoch:
            self.entries.pop()
        if epoch > self.latest:
            self.entries.append((epoch, offset))

    def up_to(self, offset: int) -> ReadEpochs:
        """As if no more had been read than what lies before `offset`."""
        return ReadEpochs([entry for entry in self.entries if entry[1] <= offset])

    def first_difference(self, read_to: int, epoch: int, end_offset: int) -> int:
        """From where on the leader's log is not what was read; `read_to` when it has all of it.

        The leader was asked where `latest` ends, and answered with the largest epoch up to that which it has, and
        the offset behind that epoch's last record. Epochs between the two are known to this reader alone.
        """
        mine_alone = min((offset for each, offset in self.entries if each > epoch), default=read_to)
        return min(end_offset, mine_alone, read_to)
