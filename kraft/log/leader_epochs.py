"""The start offset of each leader epoch, which replicas compare to find where their logs diverge.

Truncating by high watermark loses or forks data if leaders change quickly; comparing epochs does not. Sources: KIP-101
(the cache and its request), KIP-279 (the response names the epoch that was found, for a leader that never saw the
requested one).

The checkpoint `leader-epoch-checkpoint` has Kafka's lines - version, count, then "epoch start" for each - and one more,
`# crc32c=` with eight hexadecimal digits over what precedes, because a checkpoint without a checksum cannot be trusted.
A file without that line, as Kafka writes it, is also read. The log can always rebuild it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Final, NamedTuple

from crc32c import crc32c
from msgspec import Struct

from kraft.model.errors import Corruption
from kraft.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset

CHECKPOINT_NAME: Final = "leader-epoch-checkpoint"
UNDEFINED_OFFSET: Final = Offset(-1)

_OFFSET_MAX: Final = 0x7FFFFFFFFFFFFFFF
_VERSION: Final = "0"
_CRC_PREFIX: Final = "# crc32c="


class EpochStart(NamedTuple):
    """A leader epoch and the first offset that its leader wrote, or would have written."""

    epoch: LeaderEpoch
    start_offset: Offset


class LeaderEpochCache(Struct, frozen=True):
    """The leader epochs of a log; immutable."""

    entries: tuple[EpochStart, ...] = ()
    """Epochs with their start offsets; both ascend."""

    @property
    def latest_epoch(self) -> LeaderEpoch:
        return self.entries[-1].epoch if self.entries else NO_LEADER_EPOCH

    def with_epoch(self, epoch: LeaderEpoch, start_offset: Offset) -> LeaderEpochCache:
        """Return the cache with `epoch`, the latest or a later one, starting at `start_offset`.

        An epoch without records is replaced by its successor at the same offset.
        """
        if epoch == self.latest_epoch:
            return self
        assert epoch > self.latest_epoch, f"leader epoch {epoch} follows {self.latest_epoch}"
        return LeaderEpochCache((*self.up_to(start_offset).entries, EpochStart(epoch, start_offset)))

    def up_to(self, end_offset: Offset) -> LeaderEpochCache:
        """Return the cache of a log that ends at `end_offset`: without the epochs that start there or above."""
        kept = bisect_left(self.entries, end_offset, key=lambda entry: entry.start_offset)
        return LeaderEpochCache(self.entries[:kept])

    def starting_at(self, start_offset: Offset) -> LeaderEpochCache:
        """Return the cache of a log that starts at `start_offset`: without the epochs that ended below it.

        The epoch of the last deleted record stays, with the offset at which it began: by it a leader recognizes a
        follower whose log ends at the log start.
        """
        not_below = bisect_left(self.entries, start_offset, key=lambda entry: entry.start_offset)
        return LeaderEpochCache(self.entries[max(0, not_below - 1) :])

    def end_offset_for(self, epoch: LeaderEpoch, log_end: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest known epoch at or below `epoch`, and the offset after its last record.

        (-1, -1) for an epoch later than all known, and for any if none is known. For one earlier than all known: that
        epoch, and the start of the first known one.
        """
        if epoch == NO_LEADER_EPOCH or epoch > self.latest_epoch or not self.entries:
            return NO_LEADER_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end
        later = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self.entries[later].start_offset
        return (self.entries[later - 1].epoch if later else epoch), end_offset

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """Return the epoch in which the record at `offset` was written; -1 before the first known one."""
        later = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[later - 1].epoch if later else NO_LEADER_EPOCH

    def span_of(self, offset: int) -> tuple[LeaderEpoch, int]:
        """Return `epoch_at`, and the offset at which that epoch ends."""
        later = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        end = self.entries[later].start_offset if later < len(self.entries) else _OFFSET_MAX
        return (self.entries[later - 1].epoch if later else NO_LEADER_EPOCH), end

    # --- checkpoint ------------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        lines = [_VERSION, str(len(self.entries))]
        lines += [f"{entry.epoch} {entry.start_offset}" for entry in self.entries]
        content = "".join(f"{line}\n" for line in lines).encode()
        return content + f"{_CRC_PREFIX}{crc32c(content):08x}\n".encode()

    @classmethod
    def decode(cls, data: bytes, path: str) -> LeaderEpochCache:
        """Return the cache that `encode` wrote. Raises Corruption for any other bytes."""
        try:
            lines = _checked_content(data).decode("ascii").splitlines()
            if len(lines) < 2 or lines[0] != _VERSION or int(lines[1]) != len(lines) - 2:
                raise ValueError("the version is unknown or the count is wrong")
            entries = tuple(_parse_entry(line) for line in lines[2:])
            for earlier, later in pairwise(entries):
                if later.epoch <= earlier.epoch or later.start_offset <= earlier.start_offset:
                    raise ValueError(f"epoch {later.epoch} at offset {later.start_offset} is out of order")
        except ValueError as error:
            raise Corruption(path, 0, f"not a leader epoch checkpoint: {error}") from None
        return cls(entries)


def has_checksum(data: bytes) -> bool:
    """Return whether the checkpoint has the line that Kafka does not write."""
    return _CRC_PREFIX.encode() in data


def _checked_content(data: bytes) -> bytes:
    content, prefix, checksum = data.rpartition(_CRC_PREFIX.encode())
    if not prefix:
        return data
    if checksum != f"{crc32c(content):08x}\n".encode():
        raise ValueError("the checksum is wrong")
    return content


def _parse_entry(line: str) -> EpochStart:
    epoch, start_offset = line.split(" ")
    return EpochStart(LeaderEpoch(int(epoch)), Offset(int(start_offset)))
