"""Records as columns, from `send` to the encoded batch: without an object for each record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter
from typing import Final, overload

from kraft.client.model.arguments import checked_headers
from kraft.client.model.values import ColumnsToSend
from kraft.log.format.record_codec import Header, Record, RecordColumns

RECORD_OVERHEAD_BYTES: Final = 21
"""Bytes of a record besides its key, value and headers, at most in practice: lengths and deltas."""

_HEADER_OVERHEAD_BYTES: Final = 10
_BYTES_OR_NONE: Final = frozenset({bytes, type(None)})

RecordContent = tuple[bytes | None, bytes | None, tuple[Header, ...], int]
"""Key, value, headers and timestamp of a record."""


class ColumnRecords(Sequence[Record]):
    """Records in columns of equal length. They are in the order in which they will be in the log."""

    __slots__ = ("headers", "keys", "times_ms", "values")

    def __init__(
        self,
        keys: list[bytes | None],
        values: list[bytes | None],
        headers: list[tuple[Header, ...]],
        times_ms: list[int],
    ) -> None:
        self.keys, self.values, self.headers, self.times_ms = keys, values, headers, times_ms

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int, /) -> Record: ...
    @overload
    def __getitem__(self, place: slice, /) -> ColumnRecords: ...
    def __getitem__(self, place: int | slice, /) -> Record | ColumnRecords:
        keys, values, headers, times_ms = self.keys, self.values, self.headers, self.times_ms
        if isinstance(place, slice):
            return ColumnRecords(keys[place], values[place], headers[place], times_ms[place])
        return Record(-1, times_ms[place], keys[place], values[place], headers[place])

    def at(self, places: Sequence[int]) -> ColumnRecords:
        """Return the records at these places, in their order."""
        if len(places) < 2:
            return self[places[0] : places[0] + 1] if places else self[:0]
        pick = itemgetter(*places)
        return ColumnRecords(
            list(pick(self.keys)), list(pick(self.values)), list(pick(self.headers)), list(pick(self.times_ms))
        )

    def extend(self, more: ColumnRecords) -> None:
        self.keys.extend(more.keys)
        self.values.extend(more.values)
        self.headers.extend(more.headers)
        self.times_ms.extend(more.times_ms)

    def append(self, content: RecordContent) -> None:
        key, value, headers, time_ms = content
        self.keys.append(key)
        self.values.append(value)
        self.headers.append(headers)
        self.times_ms.append(time_ms)

    def sizes(self) -> list[int]:
        """Return an upper limit of each record's bytes in a batch without compression."""
        sizes = [RECORD_OVERHEAD_BYTES + (len(value) if value else 0) for value in self.values]
        if any(self.keys):
            sizes = [size + (len(key) if key else 0) for size, key in zip(sizes, self.keys, strict=True)]
        if any(self.headers):
            sizes = [size + sum(map(_header_size, each)) for size, each in zip(sizes, self.headers, strict=True)]
        return sizes

    def to_columns(self) -> RecordColumns:
        offsets = list(range(len(self)))
        return RecordColumns(offsets, self.times_ms, self.keys, self.values, self.headers)


def column_records(columns: ColumnsToSend, time_ms: int) -> ColumnRecords:
    """Return the records of these columns. Raises ValueError for other lengths, and TypeError for other types."""
    count = len(columns.values)
    for name, column in (("keys", columns.keys), ("headers", columns.headers)):
        if column is not None and len(column) != count:
            raise ValueError(f"{len(column)} {name} for {count} values")
    for name, column in (("value", columns.values), ("key", columns.keys or [])):
        for kind in set(map(type, column)) - _BYTES_OR_NONE:
            raise TypeError(f"{name} must be bytes or None, not {kind.__name__}")
    headers = None if columns.headers is None else list(map(checked_headers, columns.headers))
    return ColumnRecords(
        list(repeat(None, count)) if columns.keys is None else columns.keys,
        columns.values,
        list(repeat((), count)) if headers is None else headers,
        list(repeat(time_ms, count)),
    )


def record_size(key: bytes | None, value: bytes | None, headers: tuple[Header, ...]) -> int:
    """Return an upper limit of one record's bytes in a batch without compression."""
    size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    return size + sum(map(_header_size, headers)) if headers else size


def _header_size(header: Header) -> int:
    name, content = header
    # A character of a header's name takes at most four bytes.
    return _HEADER_OVERHEAD_BYTES + len(name) * 4 + (len(content) if content else 0)
