"""The sparse index of a segment: from an offset to a position at or before its batch.

The file is Kafka's `.index`: eight bytes an entry, big-endian, the offset relative to the segment's and the position in
its `.log`. An entry names the last offset of a batch and where that batch begins; it is made when more than
`index.interval.bytes` were appended since the entry before. An index can always be rebuilt from the log.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from itertools import pairwise
from typing import Final

ENTRY_BYTES: Final = 8
_POSITION_MASK: Final = 0xFFFFFFFF


class OffsetIndex:
    """One number of 64 bits an entry, offset above position: numeric order is the order of both."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._entries = array("Q")
        self._bytes_since_entry = 0

    def __len__(self) -> int:
        return len(self._entries)

    def note_batch(self, last_offset: int, position: int, size_bytes: int) -> None:
        """A batch was appended at `position`; it gets an entry when the one before is far enough away."""
        if self._bytes_since_entry > self._interval_bytes:
            self._entries.append((last_offset - self._base_offset) << 32 | position)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes

    def position_before_offset(self, offset: int) -> int:
        """Where to begin to look for the batch that holds `offset`: never behind it."""
        found = bisect_right(self._entries, (offset - self._base_offset) << 32 | _POSITION_MASK)
        return self._entries[found - 1] & _POSITION_MASK if found else 0

    def position_before_position(self, position: int) -> int:
        """The last known start of a batch at or before `position`."""
        found = bisect_right(self._entries, position, key=lambda entry: entry & _POSITION_MASK)
        return self._entries[found - 1] & _POSITION_MASK if found else 0

    def truncate(self, position: int) -> None:
        """Forgets the batches that begin at or behind `position`, where the segment now ends."""
        kept = bisect_right(self._entries, position - 1, key=lambda entry: entry & _POSITION_MASK)
        del self._entries[kept:]
        self._bytes_since_entry = position - (self._entries[-1] & _POSITION_MASK if kept else 0)

    def encode(self) -> bytes:
        return struct.pack(f">{len(self._entries)}Q", *self._entries)

    @classmethod
    def decode(cls, data: bytes, base_offset: int, interval_bytes: int, segment_bytes: int) -> OffsetIndex:
        """Raises ValueError for bytes that cannot be the index of a segment of that size."""
        if len(data) % ENTRY_BYTES:
            raise ValueError(f"{len(data)} bytes are no whole number of entries")
        index = cls(base_offset, interval_bytes)
        index._entries.extend(struct.unpack(f">{len(data) // ENTRY_BYTES}Q", data))
        positions = [entry & _POSITION_MASK for entry in index._entries]
        if any(later <= earlier for earlier, later in pairwise(positions)):
            raise ValueError("positions do not ascend")
        if any(later <= earlier for earlier, later in pairwise(index._entries)):
            raise ValueError("offsets do not ascend")
        if positions and positions[-1] >= segment_bytes:
            raise ValueError(f"position {positions[-1]} lies behind the end of the segment")
        index._bytes_since_entry = segment_bytes - (positions[-1] if positions else 0)
        return index
