"""The records inside a batch of format v2: bytes to records, and back.

Ordinary typed Python on purpose: mypyc compiles this file when the package is built, and without a compiler the same
file runs as it is. This is the only code of a broker that does work per record, so the common case of a varint (one
byte) is inlined.

A record has its length (varint), attributes (int8, unused), timestamp delta (varlong), offset delta (varint), then key
and value (varint length, -1 for null), then headers (varint count; each a key and a nullable value). All varints are
zigzag encoded. Source: the class comment of Kafka's DefaultRecord.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kraft.model.errors import ErrorCode, InvalidBatch

try:
    # mypyc writes to this buffer without a call into Python; a compiled codec needs it at run time.
    from librt.strings import BytesWriter
except ImportError:
    from kraft.log.format.bytes_writer import BytesWriter  # type: ignore[assignment]  # Another class, the same methods.

if TYPE_CHECKING:
    # A number that mypyc keeps in a register. Used in annotations only, which the interpreter never evaluates.
    from mypy_extensions import i64

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record; `offset` and `timestamp_ms` are absolute. Headers may repeat a key, and their order counts."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class RecordColumns(NamedTuple):
    """Records as five lists of equal length, which a columnar reader can use as they are."""

    offsets: list[int]
    timestamps_ms: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[tuple[Header, ...]]

    def to_records(self) -> list[Record]:
        return list(map(_new_record, zip(*self, strict=True)))


_new_record: Final = partial(tuple.__new__, Record)
"""`Record._make` without its step through the interpreter, which takes a third of the decoding time."""

RECORD_BYTES_MIN: Final = 7
"""Smallest record: length, attributes, two deltas, null key, null value, no headers, one byte each."""

_NAME_PART_BYTES_MAX: Final = 1 << 16
_NAME_BYTES_PER_STEP: Final = 64
"""Bytes of a long header name that count as one record: a scan reads such a name in parts."""

_INT32_MAX: Final = 0x7FFFFFFF
_INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF
_INT64_MIN: Final = -0x8000000000000000
VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10
_ZERO: Final = b"\x00"
_NULL: Final = b"\x01"
_NO_HEADERS: Final[tuple[Header, ...]] = ()


# --- varints -------------------------------------------------------------------------------------------------


def encode_varint(value: int) -> bytes:
    """Encode a varint or varlong: zigzag, then seven bits per byte, the lowest first.

    Raises ValueError for a number of more than 64 bits.
    """
    if not _INT64_MIN <= value <= _INT64_MAX:
        raise ValueError(f"{value} does not fit 64 bits")
    rest = value << 1 if value >= 0 else ((-value) << 1) - 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_SMALL_COUNT: Final = 2048
_SMALL: Final = [encode_varint(number) for number in range(_SMALL_COUNT)]
"""Encodings of small numbers, as lengths and deltas nearly always are: several times faster than the loop."""


def _varint(value: int) -> bytes:
    return _SMALL[value] if 0 <= value < _SMALL_COUNT else encode_varint(value)


def read_varint(data: bytes, position: i64, bytes_max: int) -> tuple[i64, i64]:
    """Return the number at `position` and the position behind it. Raises IndexError at the end of the data."""
    encoded: i64 = data[position]
    if encoded < 0x80:
        return (encoded >> 1) ^ -(encoded & 1), position + 1
    byte: i64 = data[position + 1]
    encoded = encoded & 0x7F | (byte & 0x7F) << 7
    if byte < 0x80:
        return (encoded >> 1) ^ -(encoded & 1), position + 2
    return _read_long_varint(data, position, bytes_max)


def _read_long_varint(data: bytes, start: int, bytes_max: int) -> tuple[int, int]:
    # Ten bytes carry up to 70 bits, so these are Python's own numbers.
    encoded = 0
    for index in range(bytes_max):
        byte = data[start + index]
        encoded |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if encoded >> (32 if bytes_max == VARINT_BYTES_MAX else 64):
                raise InvalidBatch("a variable-length number in a record has too many bits")
            return (encoded >> 1) ^ -(encoded & 1), start + index + 1
    raise InvalidBatch(f"a variable-length number in a record is longer than {bytes_max} bytes")


# --- encoding ------------------------------------------------------------------------------------------------


def _append_record(
    writer: BytesWriter,
    offset_delta: i64,
    timestamp_delta: i64,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[Header, ...],
) -> None:
    """Add one record to a payload.

    Both deltas fit into 64 bits. Raises InvalidBatch for a header name that is not text.
    """
    # The size comes first, so all lengths are computed before the first byte is written.
    timestamp_field = _SMALL[timestamp_delta] if 0 <= timestamp_delta < _SMALL_COUNT else encode_varint(timestamp_delta)
    offset_field = _SMALL[offset_delta] if 0 <= offset_delta < _SMALL_COUNT else encode_varint(offset_delta)
    size: i64 = 1 + len(timestamp_field) + len(offset_field)
    if key is None:
        key_length, key = _NULL, b""
        size += 1
    else:
        length: i64 = len(key)
        key_length = _SMALL[length] if length < _SMALL_COUNT else encode_varint(length)
        size += length + len(key_length)
    if value is None:
        value_length, value = _NULL, b""
        size += 1
    else:
        length = len(value)
        value_length = _SMALL[length] if length < _SMALL_COUNT else encode_varint(length)
        size += length + len(value_length)
    headers_field = _encode_headers(headers) if headers else _ZERO
    size += len(headers_field)
    writer.write(_SMALL[size] if size < _SMALL_COUNT else encode_varint(size))
    writer.write(_ZERO)
    writer.write(timestamp_field)
    writer.write(offset_field)
    writer.write(key_length)
    writer.write(key)
    writer.write(value_length)
    writer.write(value)
    writer.write(headers_field)


def encode_records(records: list[Record], base_timestamp_ms: int) -> bytes:
    """Encode the records of a batch. Their offsets are ignored: they are numbered in the order of the list.

    Raises InvalidBatch for timestamps more than 64 bits apart.
    """
    writer = BytesWriter()
    try:
        for offset_delta, record in enumerate(records):
            _append_record(writer, offset_delta, record[1] - base_timestamp_ms, record[2], record[3], record[4])
    except ValueError:
        # Compiled, the difference does not fit into an i64; interpreted, it does not fit into a varint.
        raise _too_far_apart() from None
    return writer.getvalue()


def encode_columns(columns: RecordColumns, base_offset: int, base_timestamp_ms: int) -> bytes:
    """Encode records from columns. They keep their offsets, which ascend from `base_offset`, gaps allowed."""
    assert len({len(column) for column in columns}) == 1, "columns are of equal length"
    writer = BytesWriter()
    try:
        for offset, timestamp_ms, key, value, headers in zip(*columns, strict=False):
            _append_record(writer, offset - base_offset, timestamp_ms - base_timestamp_ms, key, value, headers)
    except ValueError:
        # Compiled, the difference does not fit into an i64; interpreted, it does not fit into a varint.
        raise _too_far_apart() from None
    return writer.getvalue()


def _too_far_apart() -> InvalidBatch:
    return InvalidBatch("the timestamps of a batch lie too far apart", ErrorCode.INVALID_TIMESTAMP)


def _encode_headers(headers: tuple[Header, ...]) -> bytes:
    encoded = [_varint(len(headers))]
    for name, value in headers:
        try:
            key = name.encode()
        except UnicodeEncodeError as error:
            raise InvalidBatch(f"the name of a header is no text: {error}", ErrorCode.INVALID_RECORD) from None
        encoded.append(_varint(len(key)))
        encoded.append(key)
        encoded.append(_NULL if value is None else _varint(len(value)) + value)
    return b"".join(encoded)


# --- decoding ------------------------------------------------------------------------------------------------


def decode_records(payload: bytes, count: int, base_offset: int, base_timestamp_ms: int) -> list[Record]:
    """Decode the `count` records of an uncompressed payload. Raises InvalidBatch, and nothing else, for any bytes."""
    return decode_columns(payload, count, base_offset, base_timestamp_ms).to_records()


def decode_columns(payload: bytes, count: int, base_offset: int, base_timestamp_ms: int) -> RecordColumns:
    """Decode the records into columns. Raises InvalidBatch, and nothing else, for any bytes."""
    # Lists grow as records are found, but an impossible count is refused before looking for them.
    if count < 0 or count * RECORD_BYTES_MIN > len(payload):
        raise InvalidBatch(f"a batch claims {count} records in {len(payload)} bytes", ErrorCode.INVALID_RECORD)
    # An offset delta has 32 bits: from here on no sum of the two exceeds 64 bits.
    if not _INT64_MIN <= base_offset <= _INT64_MAX - _INT32_MAX:
        raise InvalidBatch(f"the offsets of a batch from {base_offset} do not fit 64 bits", ErrorCode.INVALID_RECORD)
    if not _INT64_MIN <= base_timestamp_ms <= _INT64_MAX:
        raise InvalidBatch("the timestamp of a batch does not fit 64 bits")
    columns = RecordColumns([], [], [], [], [])
    try:
        position = _decode_into(columns, payload, count, base_offset, base_timestamp_ms)
    except IndexError:
        raise InvalidBatch("the records of a batch end in the middle of one") from None
    if position != len(payload):
        raise InvalidBatch(f"{len(payload) - position} bytes follow the last record of a batch")
    return columns


def _decode_into(  # noqa: C901  A straight line over the fields of a record: calls would cost more than they explain.
    columns: RecordColumns, data: bytes, count: int, base_offset: i64, base_timestamp_ms: i64
) -> i64:
    offsets, timestamps, keys, values, headers = columns
    # The sum of two 64-bit numbers is checked before it is computed: compiled, it would wrap around.
    delta_min: i64 = _INT64_MIN if base_timestamp_ms >= 0 else _INT64_MIN - base_timestamp_ms
    delta_max: i64 = _INT64_MAX if base_timestamp_ms <= 0 else _INT64_MAX - base_timestamp_ms
    size: i64 = len(data)
    position: i64 = 0
    previous_delta: i64 = -1
    for _ in range(count):
        length, position = read_varint(data, position, VARINT_BYTES_MAX)
        end: i64 = position + length
        if length < RECORD_BYTES_MIN - 1 or end > size:
            raise InvalidBatch(f"a record of {length} bytes does not fit its batch")
        # The byte at `position` holds the attributes, which no version uses.
        byte: i64 = data[position + 1]
        if byte < 0x80:
            timestamp_delta: i64 = (byte >> 1) ^ -(byte & 1)
            position += 2
        else:
            timestamp_delta, position = read_varint(data, position + 1, VARLONG_BYTES_MAX)
        if not delta_min <= timestamp_delta <= delta_max:
            raise InvalidBatch("the timestamp of a record does not fit 64 bits")
        byte = data[position]
        if byte < 0x80:
            offset_delta: i64 = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            offset_delta, position = read_varint(data, position, VARINT_BYTES_MAX)
        if offset_delta <= previous_delta:
            raise InvalidBatch("the offsets of a batch do not ascend")
        previous_delta = offset_delta
        offsets.append(base_offset + offset_delta)
        timestamps.append(base_timestamp_ms + timestamp_delta)

        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            length, position = read_varint(data, position, VARINT_BYTES_MAX)
        if length >= 0:
            field_end: i64 = position + length
            if field_end > end:
                raise InvalidBatch(f"a key of {length} bytes reaches beyond its record")
            keys.append(data[position:field_end])
            position = field_end
        elif length == -1:
            keys.append(None)
        else:
            raise InvalidBatch(f"a key has length {length}")

        byte = data[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            length, position = read_varint(data, position, VARINT_BYTES_MAX)
        if length >= 0:
            field_end = position + length
            if field_end > end:
                raise InvalidBatch(f"a value of {length} bytes reaches beyond its record")
            values.append(data[position:field_end])
            position = field_end
        elif length == -1:
            values.append(None)
        else:
            raise InvalidBatch(f"a value has length {length}")

        if data[position] == 0:
            headers.append(_NO_HEADERS)
            position += 1
        else:
            record_headers, position = _read_headers(data, position, end)
            headers.append(record_headers)
        if position != end:
            raise InvalidBatch(f"a record ends {end - position} bytes away from where it says")
    return position


def _read_headers(data: bytes, position: i64, end: i64) -> tuple[tuple[Header, ...], i64]:
    count, position = read_varint(data, position, VARINT_BYTES_MAX)
    if count < 0 or count * 2 > end - position:
        raise InvalidBatch(f"a record claims {count} headers in {end - position} bytes")
    headers: list[Header] = []
    for _ in range(count):
        key, position = _read_nullable(data, position, end)
        value, position = _read_nullable(data, position, end)
        if key is None:
            raise InvalidBatch("the key of a header is null")
        try:
            headers.append((key.decode(), value))
        except UnicodeDecodeError:
            raise InvalidBatch("the key of a header is not UTF-8") from None
    return tuple(headers), position


class RecordSkim:
    """Check of the records of a producer's batch, a part at a time, without creating records: other threads never wait
    long for the interpreter, and only the lists of invalid records grow with their number.
    """

    def __init__(
        self, payload: bytes, count: int, base_timestamp_ms: int, earliest_ms: int, latest_ms: int, wrong_max: int
    ) -> None:
        """Take `count` records of an uncompressed payload, and the bounds of their timestamps.

        Raises InvalidBatch, as `go_on` does.
        """
        if count < 0 or count * RECORD_BYTES_MIN > len(payload):
            raise InvalidBatch(f"a batch claims {count} records in {len(payload)} bytes", ErrorCode.INVALID_RECORD)
        if not _INT64_MIN <= base_timestamp_ms <= _INT64_MAX:
            raise InvalidBatch("the timestamp of a batch does not fit 64 bits")
        self.keyless: list[int] = []
        """Indexes of records without a key; at most `wrong_max`, as in the next two lists."""
        self.early: list[int] = []
        self.late: list[int] = []
        self.max_timestamp_ms: int = _INT64_MIN
        self.earliest_found_ms: int = _INT64_MAX
        """The earliest timestamp of the records in `early`."""
        self._payload: bytes = payload
        self._count: i64 = count
        self._base_ms: i64 = base_timestamp_ms
        self._delta_min: i64 = _INT64_MIN if base_timestamp_ms >= 0 else _INT64_MIN - base_timestamp_ms
        self._delta_max: i64 = _INT64_MAX if base_timestamp_ms <= 0 else _INT64_MAX - base_timestamp_ms
        self._earliest_ms: i64 = max(_INT64_MIN, earliest_ms)
        self._latest_ms: i64 = min(_INT64_MAX, latest_ms)
        self._wrong_max: i64 = wrong_max
        self._position: i64 = 0
        self._index: i64 = 0
        self._end: i64 = 0
        """End of the current record, whose headers come next."""
        self._headers_left: i64 = 0
        self._name_left: i64 = -1
        """Bytes that are left of a header name that was read in part; -1 if a header begins here."""

    def go_on(self, steps: int) -> bool:
        """Check up to `steps` records or headers. Returns True once all are checked. Raises InvalidBatch."""
        try:
            return self._go_on(steps)
        except IndexError:
            raise InvalidBatch("the records of a batch end in the middle of one") from None

    def _go_on(self, steps: i64) -> bool:
        while steps > 0:
            steps -= 1
            if self._headers_left > 0:
                steps -= self._skip_header() // _NAME_BYTES_PER_STEP
            elif self._index < self._count:
                self._skip_record()
            elif self._position != len(self._payload):
                left = len(self._payload) - self._position
                raise InvalidBatch(f"{left} bytes follow the last record of a batch")
            else:
                return True
        return False

    def _skip_record(self) -> None:
        data = self._payload
        length, position = read_varint(data, self._position, VARINT_BYTES_MAX)
        end: i64 = position + length
        if length < RECORD_BYTES_MIN - 1 or end > len(data):
            raise InvalidBatch(f"a record of {length} bytes does not fit its batch")
        delta, position = read_varint(data, position + 1, VARLONG_BYTES_MAX)
        if not self._delta_min <= delta <= self._delta_max:
            raise InvalidBatch("the timestamp of a record does not fit 64 bits")
        self._note_timestamp(self._base_ms + delta)
        offset_delta, position = read_varint(data, position, VARINT_BYTES_MAX)
        if offset_delta != self._index:
            raise InvalidBatch("the offsets of a batch do not ascend one by one", ErrorCode.INVALID_RECORD)
        key_length, position = read_varint(data, position, VARINT_BYTES_MAX)
        if key_length == -1 and len(self.keyless) < self._wrong_max:
            self.keyless.append(self._index)
        position = end_of_field(key_length, position, end)
        value_length, position = read_varint(data, position, VARINT_BYTES_MAX)
        position = end_of_field(value_length, position, end)
        count, position = read_varint(data, position, VARINT_BYTES_MAX)
        if count < 0 or count * 2 > end - position:
            raise InvalidBatch(f"a record claims {count} headers in {end - position} bytes")
        self._position, self._end, self._headers_left = position, end, count
        if count == 0:
            self._end_record()

    def _skip_header(self) -> i64:
        """Skip a header, or a part of its name if that is long. Returns the number of bytes of the name skipped."""
        if self._name_left < 0:
            length, position = read_varint(self._payload, self._position, VARINT_BYTES_MAX)
            if length < 0:
                raise InvalidBatch(f"the key of a header has length {length}")
            if position + length > self._end:
                raise InvalidBatch(f"the key of a header of {length} bytes reaches beyond its record")
            self._position, self._name_left = position, length
        part = self._skip_name()
        if self._name_left > 0:
            return part
        self._name_left = -1
        length, position = read_varint(self._payload, self._position, VARINT_BYTES_MAX)
        self._position = end_of_field(length, position, self._end)
        self._headers_left -= 1
        if self._headers_left == 0:
            self._end_record()
        return part

    def _skip_name(self) -> i64:
        part = self._name_left
        if part > _NAME_PART_BYTES_MAX:
            part = _NAME_PART_BYTES_MAX
            # Not in the middle of a character, which has at most four bytes.
            while part > _NAME_PART_BYTES_MAX - 3 and self._payload[self._position + part] & 0xC0 == 0x80:
                part -= 1
        try:
            self._payload[self._position : self._position + part].decode()
        except UnicodeDecodeError:
            raise InvalidBatch("the key of a header is not UTF-8") from None
        self._position += part
        self._name_left -= part
        return part

    def _end_record(self) -> None:
        if self._position != self._end:
            raise InvalidBatch(f"a record ends {self._end - self._position} bytes away from where it says")
        self._index += 1

    def _note_timestamp(self, timestamp_ms: i64) -> None:
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
        if timestamp_ms > self._latest_ms and len(self.late) < self._wrong_max:
            self.late.append(self._index)
        # A record without a timestamp is never too early.
        if timestamp_ms < self._earliest_ms and timestamp_ms != -1 and len(self.early) < self._wrong_max:
            self.early.append(self._index)
            self.earliest_found_ms = min(self.earliest_found_ms, timestamp_ms)


def end_of_field(length: i64, position: i64, end: i64) -> i64:
    """Return the end of a nullable field of that length, which must lie within its record."""
    if length < -1:
        raise InvalidBatch(f"a key or value has length {length}")
    behind = position if length == -1 else position + length
    if behind > end:
        raise InvalidBatch(f"a key or value of {length} bytes reaches beyond its record")
    return behind


def _read_nullable(data: bytes, position: i64, end: i64) -> tuple[bytes | None, i64]:
    length, position = read_varint(data, position, VARINT_BYTES_MAX)
    if length < 0:
        if length == -1:
            return None, position
        raise InvalidBatch(f"the key or value of a header has length {length}")
    field_end = position + length
    if field_end > end:
        raise InvalidBatch(f"the key or value of a header of {length} bytes reaches beyond its record")
    return data[position:field_end], field_end


# --- partial reading -----------------------------------------------------------------------------------------


def record_size(data: bytes, position: int) -> int:
    """Return the size of the record at `position`, its length field included; 0 if the data end within that field.

    Raises InvalidBatch.
    """
    try:
        length, after = read_varint(data, position, VARINT_BYTES_MAX)
    except IndexError:
        return 0
    if length < RECORD_BYTES_MIN - 1:
        raise InvalidBatch(f"a record claims a length of {length} bytes")
    return int(after - position + length)


class RecordFinder:
    """Search for the first record with at least these two deltas, in a payload that is fed in pieces.

    It reads only length and deltas of each record; keys, values and headers are neither decoded nor checked.
    """

    def __init__(self, count: int, timestamp_delta_min: int, offset_delta_min: int) -> None:
        """Begin a search in a payload of `count` records."""
        self.timestamp_delta = 0
        self.offset_delta = -1
        """Offset delta of the last record that was read: that of the found record, if there is one."""
        self.rest: bytes = b""
        """Bytes fed so far, from the found record on."""
        self._timestamp_delta_min: i64 = timestamp_delta_min
        self._offset_delta_min: i64 = offset_delta_min
        self._left: i64 = count
        self._skip: i64 = 0

    @property
    def left(self) -> int:
        """Number of records that were not read yet."""
        return int(self._left)

    def feed(self, piece: bytes) -> bool:
        """Search the next piece. Returns True if the record begins in the bytes fed so far. Raises InvalidBatch."""
        data: bytes = self.rest + piece if self.rest else piece
        self.rest = b""
        size: i64 = len(data)
        position: i64 = self._skip
        start: i64 = position
        previous_delta: i64 = self.offset_delta
        timestamp_delta: i64 = 0
        offset_delta: i64 = 0
        try:
            while self._left > 0 and position < size:
                start = position
                length, position = read_varint(data, position, VARINT_BYTES_MAX)
                end: i64 = position + length
                if length < RECORD_BYTES_MIN - 1:
                    raise InvalidBatch(f"a record claims a length of {length} bytes")
                timestamp_delta, position = read_varint(data, position + 1, VARLONG_BYTES_MAX)
                offset_delta, position = read_varint(data, position, VARINT_BYTES_MAX)
                if position > end:
                    raise InvalidBatch(f"a record ends {position - end} bytes behind where it says")
                if offset_delta <= previous_delta:
                    raise InvalidBatch("the offsets of a batch do not ascend")
                previous_delta = offset_delta
                self._left -= 1
                if timestamp_delta >= self._timestamp_delta_min and offset_delta >= self._offset_delta_min:
                    self.timestamp_delta = timestamp_delta
                    self.offset_delta = offset_delta
                    self.rest = data[start:]
                    return True
                position = end
        except IndexError:
            # The piece ends within the first fields of a record.
            self.rest = data[start:]
            position = size
        self.offset_delta = previous_delta
        self._skip = position - size
        return False


def header_count(data: bytes, position: int) -> int:
    """Return the number of headers that the record at `position`, which is whole, claims. Raises InvalidBatch."""
    try:
        _, at = read_varint(data, position, VARINT_BYTES_MAX)
        _, at = read_varint(data, at + 1, VARLONG_BYTES_MAX)
        _, at = read_varint(data, at, VARINT_BYTES_MAX)
        for _ in range(2):
            length, at = read_varint(data, at, VARINT_BYTES_MAX)
            if length > 0:
                at += length
        count, _ = read_varint(data, at, VARINT_BYTES_MAX)
    except IndexError:
        raise InvalidBatch("the records of a batch end in the middle of one") from None
    return int(count)
