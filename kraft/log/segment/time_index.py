"""The time index of a segment: maps a timestamp to an offset up to which all records are older.

The file is Kafka's `.timeindex`: twelve bytes per entry, big-endian, a timestamp in milliseconds and an offset relative
to the segment's base offset. An entry says that the batch that ends at that offset has the largest timestamp so far.
Timestamps and offsets ascend. An index can always be rebuilt from the log.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from itertools import pairwise
from typing import ClassVar, Final

NO_TIMESTAMP: Final = -1

_ENTRY: Final = struct.Struct(">qI")


class TimeIndex:
    """Time index in memory."""

    ENTRY_BYTES: ClassVar[int] = 12

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps_ms: list[int] = []
        self._relative_offsets: list[int] = []

    def __len__(self) -> int:
        return len(self._timestamps_ms)

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return len(self) * self.ENTRY_BYTES

    @property
    def last(self) -> tuple[int, int]:
        """The largest timestamp in the index, and the last offset of its batch."""
        if not self._timestamps_ms:
            return NO_TIMESTAMP, self._base_offset
        return self._timestamps_ms[-1], self._base_offset + self._relative_offsets[-1]

    def note(self, timestamp_ms: int, last_offset: int) -> None:
        """Add an entry for the batch with the largest timestamp so far, unless the index has that timestamp."""
        if timestamp_ms > self.last[0]:
            self._timestamps_ms.append(timestamp_ms)
            self._relative_offsets.append(last_offset - self._base_offset)

    def entries_around(self, timestamp_ms: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """Return the last entry with a smaller timestamp, and the first with this or a larger one.

        Every record up to the offset of the former is older than `timestamp_ms`.
        """
        found = bisect_left(self._timestamps_ms, timestamp_ms)
        before = self.entry(found - 1) if found else None
        return before, self.entry(found) if found < len(self) else None

    def entry(self, number: int) -> tuple[int, int]:
        """Return timestamp and offset of an entry, counted from 0."""
        return self._timestamps_ms[number], self._base_offset + self._relative_offsets[number]

    def truncate(self, end_offset: int) -> None:
        """Remove the entries of batches that end at or above `end_offset`, where the segment now ends."""
        kept = bisect_left(self._relative_offsets, end_offset - self._base_offset)
        del self._timestamps_ms[kept:], self._relative_offsets[kept:]

    def encode(self) -> bytes:
        return b"".join(map(_ENTRY.pack, self._timestamps_ms, self._relative_offsets))

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> TimeIndex:
        """Return the index. Raises ValueError for bytes that cannot be a time index."""
        if len(data) % cls.ENTRY_BYTES:
            raise ValueError(f"{len(data)} bytes are not a whole number of entries")
        entries = list(_ENTRY.iter_unpack(data))
        for earlier, later in pairwise(entries):
            if later[0] <= earlier[0] or later[1] <= earlier[1]:
                raise ValueError(f"entry {later} after {earlier} does not ascend")
        if entries and entries[0][0] < 0:
            raise ValueError(f"{entries[0][0]} is not a timestamp")
        index = cls(base_offset)
        index._timestamps_ms = [timestamp_ms for timestamp_ms, _ in entries]
        index._relative_offsets = [offset for _, offset in entries]
        return index

    @classmethod
    def decode_last(cls, data: bytes, base_offset: int) -> tuple[int, int]:
        """Return `last` of an index whose last entry is `data`, which is empty for an empty index."""
        if not data:
            return NO_TIMESTAMP, base_offset
        timestamp_ms, relative_offset = _ENTRY.unpack(data)
        return timestamp_ms, base_offset + relative_offset
