"""Columns of records as buffers in Arrow's format, straight from the bytes of a batch: no Python object for a record.

Compiled by mypyc together with the record codec; without a compiler the same file runs as it is. Keys, values and
headers become views (Arrow's BinaryView): 16 bytes each that point into the bytes of the batch, which are not copied.

A view is the length (int32), then for up to 12 bytes the bytes themselves, otherwise their first four, the number of
the buffer and the position in it (int32 each). Source: Arrow Columnar Format, "Variable-size Binary View Layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kraft.log.format.record_codec import (
    RECORD_BYTES_MIN,
    VARINT_BYTES_MAX,
    VARLONG_BYTES_MAX,
    end_of_field,
    read_varint,
)
from kraft.model.errors import ErrorCode, InvalidBatch

try:
    from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
except ImportError:
    from kraft.log.format.bytes_writer import (  # type: ignore[assignment]  # Others, that do the same.
        BytesWriter,
        read_i32_le,
        read_i64_le,
        write_i32_le,
        write_i64_le,
    )

if TYPE_CHECKING:
    from mypy_extensions import i64

RECORD_HEADERS_MAX: Final = 1 << 20
"""Headers of one record. A batch of zeros, decompressed, could claim a hundred million, of 32 bytes each here."""

HEADER_VIEW_BYTES: Final = 32

_INLINE_BYTES_MAX: Final = 12
_PADDING: Final = bytes(_INLINE_BYTES_MAX)
_ZERO_INT32: Final = bytes(4)
_INT32_MAX: Final = 0x7FFFFFFF
_INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF
_INT64_MIN: Final = -0x8000000000000000
_TIMESTAMP_MS_MAX: Final = _INT64_MAX // 1000


class Views(NamedTuple):
    """A column of keys or values: one view of 16 bytes each, and a bit each for what is not null."""

    views: bytes
    validity: bytes
    null_count: int


class HeaderViews(NamedTuple):
    """The column of headers: for each record the number of headers up to it (int32, from 0), null without headers."""

    ends: bytes
    validity: bytes
    null_count: int
    header_count: int
    names: Views
    values: Views


class ColumnBuffers(NamedTuple):
    """Columns of that many records, little-endian. A column that was not asked for is None."""

    record_count: int
    size_bytes: int
    """Size of keys, values and headers, those that were asked for."""
    data: list[bytes]
    """The buffers that the views point into."""
    offsets: bytes | None
    """int64"""
    timestamps_us: bytes | None
    """int64, microseconds"""
    timestamp_validity: bytes
    timestamp_null_count: int
    """Timestamps that do not fit 64 bits in microseconds are null."""
    keys: Views | None
    values: Views | None
    headers: HeaderViews | None


class WantedColumns(NamedTuple):
    """The columns to decode."""

    offsets: bool = True
    timestamps: bool = True
    keys: bool = True
    values: bool = True
    headers: bool = True


class _Bits:
    """A validity bitmap, lowest bit first."""

    def __init__(self) -> None:
        self._writer = BytesWriter()
        self._byte: i64 = 0
        self._count: i64 = 0
        self.null_count: i64 = 0

    def add_valid(self) -> None:
        self._byte |= 1 << (self._count & 7)
        self._next()

    def add_null(self) -> None:
        self.null_count += 1
        self._next()

    def _next(self) -> None:
        self._count += 1
        if self._count & 7 == 0:
            self._writer.append(self._byte)
            self._byte = 0

    def getvalue(self) -> bytes:
        if self._count & 7:
            self._writer.append(self._byte)
        return self._writer.getvalue()


class _ViewColumn:
    """A growing column of views."""

    def __init__(self) -> None:
        self._writer = BytesWriter()
        self._valid = _Bits()

    def add_nullable(self, data: bytes, buffer: i64, position: i64, length: i64) -> None:
        """Add a field as a record has it: its length is negative for null."""
        if length < 0:
            write_i64_le(self._writer, 0)
            write_i64_le(self._writer, 0)
            self._valid.add_null()
        else:
            self.add(data, buffer, position, length)

    def add(self, data: bytes, buffer: i64, position: i64, length: i64) -> None:
        self._valid.add_valid()
        writer = self._writer
        if length > _INLINE_BYTES_MAX:
            # By way of an int, since mypyc converts neither of the two to the other.
            prefix: int = read_i32_le(data, position)
            word: i64 = prefix
            write_i64_le(writer, length | word << 32)
            write_i64_le(writer, buffer | position << 32)
            return
        if position + _INLINE_BYTES_MAX > len(data):
            data = data[position : position + length] + _PADDING
            position = 0
        prefix = read_i32_le(data, position)
        first: i64 = prefix
        rest: i64 = 0
        # Not a 1 shifted to the left, which mypyc makes a C int of 32 bits.
        if length < 4:
            first &= _INT64_MAX >> (63 - (length << 3))
        else:
            rest = read_i64_le(data, position + 4)
            if length < _INLINE_BYTES_MAX:
                rest &= _INT64_MAX >> (63 - ((length - 4) << 3))
        write_i64_le(writer, length | first << 32)
        write_i64_le(writer, rest)

    def finished(self) -> Views:
        return Views(self._writer.getvalue(), self._valid.getvalue(), self._valid.null_count)


class ArrowColumns:
    """Collects the records of batches of one partition into columns, until they are many or large enough.

    `begin` takes the header of a batch, `take` its uncompressed records, whole or in parts. `finish` returns the
    columns and begins new ones, also in the middle of a batch.
    """

    def __init__(self, wanted: WantedColumns, records_max: int, bytes_max: int) -> None:
        """`bytes_max` counts keys, values, and headers with their views; one record may exceed it."""
        self._wants_offsets: bool = wanted.offsets
        self._wants_timestamps: bool = wanted.timestamps
        self._wants_keys: bool = wanted.keys
        self._wants_values: bool = wanted.values
        self._wants_headers: bool = wanted.headers
        self._wants_views: bool = wanted.keys or wanted.values or wanted.headers
        self._records_max: i64 = records_max
        self._bytes_max: i64 = bytes_max
        self._left: i64 = 0
        self._is_past_end: bool = False
        self._base_offset: i64 = 0
        self._base_timestamp_ms: i64 = 0
        self._delta_min: i64 = 0
        self._delta_max: i64 = 0
        self._append_time_ms: i64 = 0
        self._has_append_time: bool = False
        self._previous_delta: i64 = -1
        self._last_delta: i64 = 0
        self._first_delta: i64 = 0
        self._end_delta: i64 = 0
        self._clear()

    def _clear(self) -> None:
        self._count: i64 = 0
        self._bytes: i64 = 0
        self._data: list[bytes] = []
        self._offsets: BytesWriter = BytesWriter()
        self._timestamps: BytesWriter = BytesWriter()
        self._timestamp_bits: _Bits = _Bits()
        self._keys: _ViewColumn = _ViewColumn()
        self._values: _ViewColumn = _ViewColumn()
        self._header_ends: BytesWriter = BytesWriter()
        self._header_bits: _Bits = _Bits()
        self._header_count: i64 = 0
        self._header_names: _ViewColumn = _ViewColumn()
        self._header_values: _ViewColumn = _ViewColumn()

    @property
    def count(self) -> int:
        """Number of records collected."""
        return self._count

    @property
    def is_full(self) -> bool:
        return self._count >= self._records_max or self._bytes >= self._bytes_max

    @property
    def left(self) -> int:
        """Number of records of the batch that are not taken yet."""
        return self._left

    @property
    def next_offset(self) -> int:
        """The offset after the last record taken of the batch."""
        return self._base_offset + self._previous_delta + 1

    @property
    def is_past_end(self) -> bool:
        """The rest of the batch is not wanted."""
        return self._is_past_end

    def begin(
        self,
        count: int,
        size_bytes: int,
        base_offset: int,
        last_offset: int,
        base_timestamp_ms: int,
        append_time_ms: int | None,
        start: int,
        end: int,
    ) -> None:
        """Begin a batch of `count` records in at most `size_bytes`. Those from offset `start` up to `end` are wanted.

        With `append_time_ms` it is the timestamp of each record. Raises InvalidBatch.
        """
        if count < 0 or count * RECORD_BYTES_MIN > size_bytes:
            raise InvalidBatch(f"a batch claims {count} records in {size_bytes} bytes", ErrorCode.INVALID_RECORD)
        if not 0 <= base_offset <= last_offset <= min(_INT64_MAX, base_offset + _INT32_MAX):
            raise InvalidBatch(f"a batch claims offsets from {base_offset} to {last_offset}", ErrorCode.INVALID_RECORD)
        for timestamp_ms in (base_timestamp_ms, append_time_ms or 0):
            if not _INT64_MIN <= timestamp_ms <= _INT64_MAX:
                raise InvalidBatch("the timestamp of a batch does not fit 64 bits")
        self._left = count
        self._is_past_end = False
        self._base_offset = base_offset
        self._last_delta = last_offset - base_offset
        self._base_timestamp_ms = base_timestamp_ms
        # The sum of two 64-bit numbers is checked before it is computed: compiled, it would wrap around.
        self._delta_min = _INT64_MIN if base_timestamp_ms >= 0 else _INT64_MIN - base_timestamp_ms
        self._delta_max = _INT64_MAX if base_timestamp_ms <= 0 else _INT64_MAX - base_timestamp_ms
        self._has_append_time = append_time_ms is not None
        self._append_time_ms = 0 if append_time_ms is None else append_time_ms
        self._previous_delta = -1
        self._first_delta = max(0, min(start - base_offset, _INT32_MAX + 1))
        self._end_delta = max(0, min(end - base_offset, _INT32_MAX + 1))

    def take(self, data: bytes, position: int, end: int) -> int:
        """Take records from `data[position:end]` until these columns are full, or no whole record is left there.

        Returns the position behind the last one. Raises InvalidBatch, and nothing else, for any bytes.
        """
        try:
            return self._take(data, position, end)
        except IndexError:
            raise InvalidBatch("the records of a batch end in the middle of one") from None

    def _take(self, data: bytes, position: i64, data_end: i64) -> i64:  # noqa: C901  As in the record codec.
        buffer: i64 = len(self._data)
        if self._wants_views:
            self._data.append(data)
        count: i64 = self._count
        size_bytes: i64 = self._bytes
        left: i64 = self._left
        previous_delta: i64 = self._previous_delta
        while left > 0 and count < self._records_max and size_bytes < self._bytes_max:
            if data_end - position < VARINT_BYTES_MAX and not _has_varint(data, position, data_end):
                break
            length, after = read_varint(data, position, VARINT_BYTES_MAX)
            end: i64 = after + length
            if length < RECORD_BYTES_MIN - 1:
                raise InvalidBatch(f"a record claims a length of {length} bytes")
            if end > data_end:
                break
            # The byte at `after` holds the attributes, which no version uses.
            timestamp_delta, at = read_varint(data, after + 1, VARLONG_BYTES_MAX)
            if not self._delta_min <= timestamp_delta <= self._delta_max:
                raise InvalidBatch("the timestamp of a record does not fit 64 bits")
            offset_delta, at = read_varint(data, at, VARINT_BYTES_MAX)
            if offset_delta <= previous_delta:
                raise InvalidBatch("the offsets of a batch do not ascend")
            if offset_delta > self._last_delta:
                raise InvalidBatch(
                    f"a batch that ends at offset {self._base_offset + self._last_delta} holds offset "
                    f"{self._base_offset + offset_delta}"
                )
            if offset_delta >= self._end_delta:
                self._is_past_end = True
                break
            left -= 1
            previous_delta = offset_delta
            position = end
            if offset_delta < self._first_delta:
                continue
            count += 1
            if self._wants_offsets:
                write_i64_le(self._offsets, self._base_offset + offset_delta)
            if self._wants_timestamps:
                self._add_timestamp(
                    self._append_time_ms if self._has_append_time else self._base_timestamp_ms + timestamp_delta
                )
            if self._wants_views:
                size_bytes += self._add_fields(data, buffer, at, end)
        self._count = count
        self._bytes = size_bytes
        self._left = left
        self._previous_delta = previous_delta
        return position

    def _add_fields(self, data: bytes, buffer: i64, at: i64, end: i64) -> i64:
        """Add key, value and headers of a record that ends at `end`. Returns their size."""
        size_bytes: i64 = 0
        length, at = read_varint(data, at, VARINT_BYTES_MAX)
        behind = end_of_field(length, at, end)
        if self._wants_keys:
            size_bytes += behind - at
            self._keys.add_nullable(data, buffer, at, length)
        if not (self._wants_values or self._wants_headers):
            return size_bytes
        length, at = read_varint(data, behind, VARINT_BYTES_MAX)
        behind = end_of_field(length, at, end)
        if self._wants_values:
            size_bytes += behind - at
            self._values.add_nullable(data, buffer, at, length)
        if self._wants_headers:
            size_bytes += self._add_headers(data, buffer, behind, end)
        return size_bytes

    def _add_timestamp(self, timestamp_ms: i64) -> None:
        if -_TIMESTAMP_MS_MAX <= timestamp_ms <= _TIMESTAMP_MS_MAX:
            write_i64_le(self._timestamps, timestamp_ms * 1000)
            self._timestamp_bits.add_valid()
        else:
            write_i64_le(self._timestamps, 0)
            self._timestamp_bits.add_null()

    def _add_headers(self, data: bytes, buffer: i64, position: i64, end: i64) -> i64:
        """Add the headers of a record that ends at `end`. Returns their size with their views."""
        start = position
        count, position = read_varint(data, position, VARINT_BYTES_MAX)
        if count < 0 or count * 2 > end - position:
            raise InvalidBatch(f"a record claims {count} headers in {end - position} bytes")
        if count > RECORD_HEADERS_MAX:
            raise InvalidBatch(
                f"a record has {count} headers, at most {RECORD_HEADERS_MAX} fit", ErrorCode.MESSAGE_TOO_LARGE
            )
        index: i64 = 0
        while index < count:
            length, at = read_varint(data, position, VARINT_BYTES_MAX)
            if length < 0:
                raise InvalidBatch(f"the key of a header has length {length}")
            position = end_of_field(length, at, end)
            if _is_ascii(data, at, position):
                self._header_names.add(data, buffer, at, length)
            else:
                self._add_name(data[at:position])
            length, at = read_varint(data, position, VARINT_BYTES_MAX)
            position = end_of_field(length, at, end)
            self._header_values.add_nullable(data, buffer, at, length)
            index += 1
        if position != end:
            raise InvalidBatch(f"a record ends {end - position} bytes away from where it says")
        self._header_count += count
        total: int = self._header_count
        write_i32_le(self._header_ends, total)
        if count == 0:
            self._header_bits.add_null()
            return 0
        self._header_bits.add_valid()
        return position - start + count * HEADER_VIEW_BYTES

    def _add_name(self, name: bytes) -> None:
        """Add a header name that is not ASCII. Bytes that are not UTF-8 become U+FFFD, as in Kafka's Java clients."""
        text = name.decode("utf-8", "replace").encode()
        self._data.append(text)
        self._header_names.add(text, len(self._data) - 1, 0, len(text))

    def finish(self) -> ColumnBuffers:
        """Return the columns collected, and begin new ones."""
        headers: HeaderViews | None = None
        if self._wants_headers:
            headers = HeaderViews(
                ends=_ZERO_INT32 + self._header_ends.getvalue(),
                validity=self._header_bits.getvalue(),
                null_count=self._header_bits.null_count,
                header_count=self._header_count,
                names=self._header_names.finished(),
                values=self._header_values.finished(),
            )
        found = ColumnBuffers(
            record_count=self._count,
            size_bytes=self._bytes,
            data=self._data,
            offsets=self._offsets.getvalue() if self._wants_offsets else None,
            timestamps_us=self._timestamps.getvalue() if self._wants_timestamps else None,
            timestamp_validity=self._timestamp_bits.getvalue(),
            timestamp_null_count=self._timestamp_bits.null_count,
            keys=self._keys.finished() if self._wants_keys else None,
            values=self._values.finished() if self._wants_values else None,
            headers=headers,
        )
        self._clear()
        return found


def _has_varint(data: bytes, position: i64, end: i64) -> bool:
    while position < end:
        byte: i64 = data[position]
        if byte < 0x80:
            return True
        position += 1
    return False


def _is_ascii(data: bytes, position: i64, end: i64) -> bool:
    while position < end:
        byte: i64 = data[position]
        if byte >= 0x80:
            return False
        position += 1
    return True
