"""The sparse index of a segment by time: from a timestamp to an offset before which all records are older.

The file is Kafka's `.timeindex`: twelve bytes an entry, big-endian, a timestamp in milliseconds and an offset relative
to the segment's. An entry says that the batch that ends at that offset has the largest timestamp so far. Timestamps and
offsets ascend. An index can always be rebuilt from the log.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from itertools import pairwise
from typing import ClassVar, Final

NO_TIMESTAMP: Final = -1

_ENTRY: Final = struct.Struct(">qI")


class TimeIndex:
    ENTRY_BYTES: ClassVar[int] = 12

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps_ms: list[int] = []
        self._relative_offsets: list[int] = []

    def __len__(self) -> int:
        return len(self._timestamps_ms)

    @property
    def size_bytes(self) -> int:
        """Of the file."""
        return len(self) * self.ENTRY_BYTES

    @property
    def last(self) -> tuple[int, int]:
        """The largest timestamp that the index knows, and the offset of the last record of its batch."""
        if not self._timestamps_ms:
            return NO_TIMESTAMP, self._base_offset
        return self._timestamps_ms[-1], self._base_offset + self._relative_offsets[-1]

    def note(self, timestamp_ms: int, last_offset: int) -> None:
        """The largest timestamp so far is that of the batch that ends at `last_offset`; no news makes no entry."""
        if timestamp_ms > self.last[0]:
            self._timestamps_ms.append(timestamp_ms)
            self._relative_offsets.append(last_offset - self._base_offset)

    def entries_around(self, timestamp_ms: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """The last entry with a smaller timestamp, and the first with this or a larger one.

        Every record up to the offset of the former is older than `timestamp_ms`.
        """
        found = bisect_left(self._timestamps_ms, timestamp_ms)
        before = self.entry(found - 1) if found else None
        return before, self.entry(found) if found < len(self) else None

    def entry(self, number: int) -> tuple[int, int]:
        """Timestamp and offset of the entry, counted from 0."""
        return self._timestamps_ms[number], self._base_offset + self._relative_offsets[number]

    def truncate(self, end_offset: int) -> None:
        """Forgets the batches that end at or above `end_offset`, where the segment now ends."""
        kept = bisect_left(self._relative_offsets, end_offset - self._base_offset)
        del self._timestamps_ms[kept:], self._relative_offsets[kept:]

    def encode(self) -> bytes:
        return b"".join(map(_ENTRY.pack, self._timestamps_ms, self._relative_offsets))

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> TimeIndex:
        """Raises ValueError for bytes that cannot be such an index."""
        if len(data) % cls.ENTRY_BYTES:
            raise ValueError(f"{len(data)} bytes are no whole number of entries")
        entries = list(_ENTRY.iter_unpack(data))
        for earlier, later in pairwise(entries):
            if later[0] <= earlier[0] or later[1] <= earlier[1]:
                raise ValueError(f"entry {later} does not ascend from {earlier}")
        if entries and entries[0][0] < 0:
            raise ValueError(f"{entries[0][0]} is no timestamp")
        index = cls(base_offset)
        index._timestamps_ms = [timestamp_ms for timestamp_ms, _ in entries]
        index._relative_offsets = [offset for _, offset in entries]
        return index

    @classmethod
    def decode_last(cls, data: bytes, base_offset: int) -> tuple[int, int]:
        """`last` of an index that ends with these bytes; none for an empty one."""
        if not data:
            return NO_TIMESTAMP, base_offset
        timestamp_ms, relative_offset = _ENTRY.unpack(data)
        return timestamp_ms, base_offset + relative_offset
