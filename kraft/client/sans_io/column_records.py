"""Records as columns, from `send_columns` to the encoded batch: without an object for each record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Final, overload

from kraft.client.sans_io.send_batch import RECORD_OVERHEAD_BYTES, record_size
from kraft.client.values import ColumnsToSend
from kraft.log.format.record_codec import Header, Record, RecordColumns

_BYTES_OR_NONE: Final = frozenset({bytes, type(None)})


class ColumnRecords(Sequence[Record]):
    """Records in columns of equal length. They are in the order in which they will be in the log."""

    __slots__ = ("_headers", "_keys", "_times_ms", "_values")

    def __init__(
        self,
        keys: list[bytes | None],
        values: list[bytes | None],
        headers: list[tuple[Header, ...]],
        times_ms: list[int],
    ) -> None:
        self._keys, self._values, self._headers, self._times_ms = keys, values, headers, times_ms

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, place: int, /) -> Record: ...
    @overload
    def __getitem__(self, place: slice, /) -> ColumnRecords: ...
    def __getitem__(self, place: int | slice, /) -> Record | ColumnRecords:
        keys, values, headers, times_ms = self._keys, self._values, self._headers, self._times_ms
        if isinstance(place, slice):
            return ColumnRecords(keys[place], values[place], headers[place], times_ms[place])
        return Record(-1, times_ms[place], keys[place], values[place], headers[place])

    def at(self, places: Sequence[int]) -> ColumnRecords:
        """Return the records at these places, in their order."""
        if len(places) < 2:
            return self[places[0] : places[0] + 1] if places else self[:0]
        pick = itemgetter(*places)
        return ColumnRecords(
            list(pick(self._keys)), list(pick(self._values)), list(pick(self._headers)), list(pick(self._times_ms))
        )

    def extend(self, more: Iterable[Record]) -> None:
        assert isinstance(more, ColumnRecords), "a batch holds columns or records, not both"
        self._keys.extend(more._keys)
        self._values.extend(more._values)
        self._headers.extend(more._headers)
        self._times_ms.extend(more._times_ms)

    def size_bytes(self) -> int:
        """Return an upper limit of the records' bytes in a batch without compression."""
        if any(self._headers):
            return sum(map(record_size, self))
        contents = sum(map(len, filter(None, self._values))) + sum(map(len, filter(None, self._keys)))
        return contents + RECORD_OVERHEAD_BYTES * len(self)

    def parts(self, bytes_max: int) -> Iterator[tuple[ColumnRecords, int]]:
        """Yield the records in parts of at most this size, if a single one is not larger, each with its size."""
        size = self.size_bytes()
        if size <= bytes_max or len(self) == 1:
            yield self, size
            return
        step = max(1, len(self) * bytes_max // size)
        for start in range(0, len(self), step):
            yield from self[start : start + step].parts(bytes_max)

    def to_columns(self) -> RecordColumns:
        offsets = list(range(len(self)))
        return RecordColumns(offsets, self._times_ms, self._keys, self._values, self._headers)


def column_records(columns: ColumnsToSend, time_ms: int) -> ColumnRecords:
    """Return the records of these columns. Raises ValueError for other lengths, and TypeError for other types."""
    count = len(columns.values)
    for name, column in (("keys", columns.keys), ("headers", columns.headers)):
        if column is not None and len(column) != count:
            raise ValueError(f"{len(column)} {name} for {count} values")
    for name, column in (("value", columns.values), ("key", columns.keys or [])):
        for kind in set(map(type, column)) - _BYTES_OR_NONE:
            raise TypeError(f"{name} must be bytes or None, not {kind.__name__}")
    return ColumnRecords(
        list(repeat(None, count)) if columns.keys is None else columns.keys,
        columns.values,
        list(repeat((), count)) if columns.headers is None else columns.headers,
        list(repeat(time_ms, count)),
    )
