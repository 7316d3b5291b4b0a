"""Which leader epoch began at which offset: what replicas compare to find where their logs part.

Truncating by high watermark loses or forks data when leaders change quickly; comparing epochs does not. Sources:
KIP-101 (the cache and its question), KIP-279 (the answer names the epoch that was found, for a leader that never saw
the one asked for).

The checkpoint `leader-epoch-checkpoint` has Kafka's lines - version, count, then "epoch start" for each - and behind
them one more, `# crc32c=` with eight hexadecimal digits over what precedes, because a checkpoint without a checksum
cannot be trusted. A file without that line, as Kafka writes it, is read as well. The log can always rebuild it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from crc32c import crc32c

from kraft.model.errors import Corruption
from kraft.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset

CHECKPOINT_NAME: Final = "leader-epoch-checkpoint"
UNDEFINED_OFFSET: Final = Offset(-1)

_OFFSET_MAX: Final = 0x7FFFFFFFFFFFFFFF
_VERSION: Final = "0"
_CRC_PREFIX: Final = "# crc32c="


class EpochStart(NamedTuple):
    """The first offset that the leader of that epoch wrote, or would have written."""

    epoch: LeaderEpoch
    start_offset: Offset


@dataclass(frozen=True, slots=True)
class LeaderEpochCache:
    """All epochs that a log knows of, at some moment."""

    entries: tuple[EpochStart, ...] = ()
    """Ascend in both fields."""

    @property
    def latest_epoch(self) -> LeaderEpoch:
        return self.entries[-1].epoch if self.entries else NO_LEADER_EPOCH

    def with_epoch(self, epoch: LeaderEpoch, start_offset: Offset) -> LeaderEpochCache:
        """The leader of `epoch`, the latest or a later one, writes from `start_offset` on.

        An epoch that wrote nothing gives way to its successor at the same offset.
        """
        if epoch == self.latest_epoch:
            return self
        assert epoch > self.latest_epoch, f"leader epoch {epoch} follows {self.latest_epoch}"
        return LeaderEpochCache((*self.up_to(start_offset).entries, EpochStart(epoch, start_offset)))

    def up_to(self, end_offset: Offset) -> LeaderEpochCache:
        """Without the epochs that start at or above `end_offset`, where the log ends now."""
        kept = bisect_left(self.entries, end_offset, key=lambda entry: entry.start_offset)
        return LeaderEpochCache(self.entries[:kept])

    def starting_at(self, start_offset: Offset) -> LeaderEpochCache:
        """Of a log that starts at `start_offset` now: the epoch that holds it is kept, and starts there."""
        later = bisect_right(self.entries, start_offset, key=lambda entry: entry.start_offset)
        if later == 0:
            return self
        return LeaderEpochCache((EpochStart(self.entries[later - 1].epoch, start_offset), *self.entries[later:]))

    def end_offset_for(self, epoch: LeaderEpoch, log_end: Offset) -> tuple[LeaderEpoch, Offset]:
        """The largest known epoch at or below the one asked for, and the offset behind its last record.

        (-1, -1) for an epoch later than all known. For one earlier than all known: that epoch, and where the first
        known one starts.
        """
        if epoch == NO_LEADER_EPOCH or epoch > self.latest_epoch:
            return NO_LEADER_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end
        later = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self.entries[later].start_offset
        return (self.entries[later - 1].epoch if later else epoch), end_offset

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """The epoch that the record at `offset` was written in; -1 before the first known one."""
        later = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[later - 1].epoch if later else NO_LEADER_EPOCH

    def span_of(self, offset: int) -> tuple[LeaderEpoch, int]:
        """`epoch_at`, and the offset up to which the answer stays the same."""
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
        """Raises Corruption for a file that was not written so."""
        try:
            lines = _checked_content(data).decode("ascii").splitlines()
            if len(lines) < 2 or lines[0] != _VERSION or int(lines[1]) != len(lines) - 2:
                raise ValueError("version or count do not fit the lines")
            entries = tuple(_parse_entry(line) for line in lines[2:])
            for earlier, later in pairwise(entries):
                if later.epoch <= earlier.epoch or later.start_offset <= earlier.start_offset:
                    raise ValueError(f"epoch {later.epoch} at {later.start_offset} does not ascend")
        except ValueError as error:
            raise Corruption(path, 0, f"not a leader epoch checkpoint: {error}") from None
        return cls(entries)


def _checked_content(data: bytes) -> bytes:
    content, prefix, checksum = data.rpartition(_CRC_PREFIX.encode())
    if not prefix:
        return data
    if checksum != f"{crc32c(content):08x}\n".encode():
        raise ValueError("the checksum does not fit")
    return content


def _parse_entry(line: str) -> EpochStart:
    epoch, start_offset = line.split(" ")
    return EpochStart(LeaderEpoch(int(epoch)), Offset(int(start_offset)))
