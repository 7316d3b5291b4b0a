"""The offset index of a segment: maps an offset to a position at or before its batch.

The file is Kafka's `.index`: eight bytes per entry, big-endian, the offset relative to the segment's base offset and
the position in its `.log`. An entry has the last offset of a batch and the position where that batch begins; one is
added when more than `index.interval.bytes` were appended since the last. An index can always be rebuilt from the log.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from itertools import pairwise
from typing import ClassVar, Final

_POSITION_MASK: Final = 0xFFFFFFFF


def _position(entry: int) -> int:
    return entry & _POSITION_MASK


class OffsetIndex:
    """Offset index in memory. An entry is a 64-bit number, offset above position: its order is the order of both."""

    ENTRY_BYTES: ClassVar[int] = 8

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._entries = array("Q")
        self._bytes_since_entry = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return len(self._entries) * self.ENTRY_BYTES

    @property
    def last(self) -> tuple[int, int]:
        """The last entry, as `entry_before_offset` returns it."""
        return self._decoded(self._entries[-1]) if self._entries else (self._base_offset, 0)

    def note_batch(self, last_offset: int, position: int, size_bytes: int) -> bool:
        """Note a batch appended at `position`. Returns True if it gets an entry, being far enough from the last one."""
        is_due = self._bytes_since_entry > self._interval_bytes
        if is_due:
            self._entries.append((last_offset - self._base_offset) << 32 | position)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes
        return is_due

    def entry_before_offset(self, offset: int) -> tuple[int, int]:
        """Return where to start looking for `offset`: last offset and position of a batch that is not after it.

        Position 0 means the beginning of the segment; the offset then has no meaning.
        """
        found = bisect_right(self._entries, (offset - self._base_offset) << 32 | _POSITION_MASK)
        return self._decoded(self._entries[found - 1]) if found else (self._base_offset, 0)

    def position_up_to(self, position: int) -> int:
        """Return the last position in the index that is not above `position`, where a batch begins; 0 for none."""
        found = bisect_right(self._entries, position, key=_position)
        return _position(self._entries[found - 1]) if found else 0

    def _decoded(self, entry: int) -> tuple[int, int]:
        return self._base_offset + (entry >> 32), entry & _POSITION_MASK

    def truncate(self, position: int) -> None:
        """Remove the entries of batches that begin at or above `position`, where the segment now ends."""
        kept = bisect_right(self._entries, position - 1, key=_position)
        del self._entries[kept:]
        self._bytes_since_entry = position - (self._entries[-1] & _POSITION_MASK if kept else 0)

    def encode(self) -> bytes:
        entries = array("Q", self._entries)
        if sys.byteorder == "little":
            entries.byteswap()
        return entries.tobytes()

    @classmethod
    def decode(cls, data: bytes, base_offset: int, interval_bytes: int, segment_bytes: int) -> OffsetIndex:
        """Return the index. Raises ValueError for bytes that cannot be the index of a segment of that size."""
        if len(data) % cls.ENTRY_BYTES:
            raise ValueError(f"{len(data)} bytes are not a whole number of entries")
        index = cls(base_offset, interval_bytes)
        index._entries.frombytes(data)
        if sys.byteorder == "little":
            index._entries.byteswap()
        positions = [entry & _POSITION_MASK for entry in index._entries]
        if any(later <= earlier for earlier, later in pairwise(positions)):
            raise ValueError("positions do not ascend")
        if any(later <= earlier for earlier, later in pairwise(index._entries)):
            raise ValueError("offsets do not ascend")
        if positions and positions[-1] >= segment_bytes:
            raise ValueError(f"position {positions[-1]} is beyond the end of the segment")
        index._bytes_since_entry = segment_bytes - (positions[-1] if positions else 0)
        return index

    @classmethod
    def decode_last(cls, data: bytes, base_offset: int) -> tuple[int, int]:
        """Return `last` of an index whose last entry is `data`, which is empty for an empty index."""
        entry = int.from_bytes(data, "big")
        return base_offset + (entry >> 32), entry & _POSITION_MASK
