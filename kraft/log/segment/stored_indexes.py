"""Look-ups in the two indexes of a segment as they are stored, without decoding every entry.

Decoding an index takes up to half a second, by its size; a look-up needs about twenty entries. Corrupt bytes are not
noticed here, so callers verify the result against the log.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from contextlib import closing
from typing import Final, Protocol

from kraft.log.disk import Disk

Entry = tuple[int, int]

_OFFSET_ENTRY: Final = struct.Struct(">II")
_TIME_ENTRY: Final = struct.Struct(">qI")


class OffsetEntries(Protocol):
    """An `OffsetIndex`, or a stored one."""

    @property
    def last(self) -> Entry: ...

    def entry_before_offset(self, offset: int) -> Entry: ...

    def position_up_to(self, position: int) -> int: ...


class TimeEntries(Protocol):
    """A `TimeIndex`, or a stored one."""

    def entries_around(self, timestamp_ms: int) -> tuple[Entry | None, Entry | None]: ...


class StoredOffsetIndex:
    """An offset index in the bytes of its file."""

    def __init__(self, data: bytes, base_offset: int) -> None:
        """Take the bytes of the file. Raises ValueError if they are not a whole number of entries."""
        self._data = data
        self._base_offset = base_offset
        self._count = _count(data, _OFFSET_ENTRY.size)

    @property
    def last(self) -> Entry:
        """The last entry, like `OffsetIndex.last`."""
        return self._entry(self._count - 1)

    def entry_before_offset(self, offset: int) -> Entry:
        """Return the same as `OffsetIndex.entry_before_offset`."""
        found = bisect_right(range(self._count), offset, key=lambda number: self._entry(number)[0])
        return self._entry(found - 1)

    def position_up_to(self, position: int) -> int:
        """Return the same as `OffsetIndex.position_up_to`."""
        found = bisect_right(range(self._count), position, key=lambda number: self._entry(number)[1])
        return self._entry(found - 1)[1]

    def _entry(self, number: int) -> Entry:
        if number < 0:
            return self._base_offset, 0
        relative_offset, position = _OFFSET_ENTRY.unpack_from(self._data, number * _OFFSET_ENTRY.size)
        return self._base_offset + relative_offset, position


class StoredTimeIndex:
    """A time index in the bytes of its file."""

    def __init__(self, data: bytes, base_offset: int) -> None:
        """Take the bytes of the file. Raises ValueError if they are not a whole number of entries."""
        self._data = data
        self._base_offset = base_offset
        self._count = _count(data, _TIME_ENTRY.size)

    def entries_around(self, timestamp_ms: int) -> tuple[Entry | None, Entry | None]:
        """Return the same as `TimeIndex.entries_around`."""
        found = bisect_left(range(self._count), timestamp_ms, key=lambda number: self._entry(number)[0])
        before = self._entry(found - 1) if found else None
        return before, self._entry(found) if found < self._count else None

    def _entry(self, number: int) -> Entry:
        timestamp_ms, relative_offset = _TIME_ENTRY.unpack_from(self._data, number * _TIME_ENTRY.size)
        return timestamp_ms, self._base_offset + relative_offset


def _count(data: bytes, entry_bytes: int) -> int:
    if len(data) % entry_bytes:
        raise ValueError(f"{len(data)} bytes are not a whole number of entries")
    return len(data) // entry_bytes


def last_bytes(disk: Disk, path: str, size: int) -> bytes:
    """Return the last `size` bytes of an index file whose entries have that size; fewer if it is empty.

    Raises FileNotFoundError, and ValueError for a file without whole entries.
    """
    with closing(disk.open(path, create=False)) as file:
        if file.size % size:
            raise ValueError(f"{file.size} bytes are not a whole number of entries")
        return file.read_at(max(0, file.size - size), size)
