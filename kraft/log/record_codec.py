"""The records inside a batch of format v2: bytes to records, and back.

Ordinary typed Python on purpose: mypyc compiles this file when the package is built, and the same file runs as it is
where there is no compiler. This is the one place where work is done per record, so the common case of a varint (one
byte) is read in line.

A record is its length (varint), attributes (int8, unused), timestamp delta (varlong), offset delta (varint), then key
and value (varint length, -1 for null), then headers (varint count; each a key and a nullable value). All varints are
zigzag encoded. Source: the class comment of Kafka's DefaultRecord.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.model.errors import ErrorCode, InvalidBatch

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record; `offset` and `timestamp_ms` are absolute. Headers may repeat a key, and their order counts."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class RecordColumns(NamedTuple):
    """The same records as five lists of equal length: what a columnar reader takes over without touching a record."""

    offsets: list[int]
    timestamps_ms: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[tuple[Header, ...]]


RECORD_BYTES_MIN: Final = 7
"""Length, attributes, two deltas, null key, null value, no headers: one byte each."""

_INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF
_INT64_MIN: Final = -0x8000000000000000
_VARINT_BYTES_MAX: Final = 5
_VARLONG_BYTES_MAX: Final = 10
_NULL: Final = b"\x01"
_NO_HEADERS: Final[tuple[Header, ...]] = ()


# --- varints -------------------------------------------------------------------------------------------------


def encode_varint(value: int) -> bytes:
    """Zigzag, then seven bits a byte, the lowest first. Serves varint and varlong alike."""
    rest = value << 1 if value >= 0 else ((-value) << 1) - 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_SMALL_COUNT: Final = 2048
_SMALL: Final = [encode_varint(number) for number in range(_SMALL_COUNT)]
"""Lengths and deltas are nearly always small: a look-up is several times as quick as the loop."""


def _varint(value: int) -> bytes:
    return _SMALL[value] if 0 <= value < _SMALL_COUNT else encode_varint(value)


def _read_varint(data: bytes, position: int, bytes_max: int) -> tuple[int, int]:
    """The number at `position`, and the position behind it. IndexError at the end of the data is the caller's."""
    encoded = data[position]
    if encoded < 0x80:
        return (encoded >> 1) ^ -(encoded & 1), position + 1
    byte = data[position + 1]
    encoded = encoded & 0x7F | (byte & 0x7F) << 7
    if byte < 0x80:
        return (encoded >> 1) ^ -(encoded & 1), position + 2
    for index in range(2, bytes_max):
        byte = data[position + index]
        encoded |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if encoded >> (32 if bytes_max == _VARINT_BYTES_MAX else 64):
                raise InvalidBatch("a variable-length number in a record has too many bits")
            return (encoded >> 1) ^ -(encoded & 1), position + index + 1
    raise InvalidBatch(f"a variable-length number in a record is longer than {bytes_max} bytes")


# --- encoding ------------------------------------------------------------------------------------------------


def append_record(
    parts: list[bytes],
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[Header, ...] = (),
) -> int:
    """Adds one record to the pieces that will be joined to a payload, and returns its size in bytes."""
    timestamp_field = _SMALL[timestamp_delta] if 0 <= timestamp_delta < _SMALL_COUNT else encode_varint(timestamp_delta)
    offset_field = _SMALL[offset_delta] if offset_delta < _SMALL_COUNT else encode_varint(offset_delta)
    key_length, key_bytes = (_NULL, b"") if key is None else (_varint(len(key)), key)
    value_length, value_bytes = (_NULL, b"") if value is None else (_varint(len(value)), value)
    headers_field = _encode_headers(headers) if headers else b"\x00"
    fields = b"".join((b"\x00", timestamp_field, offset_field, key_length, key_bytes, value_length))
    size = len(fields) + len(value_bytes) + len(headers_field)
    length = _SMALL[size] if size < _SMALL_COUNT else encode_varint(size)
    # The value may be large, so it is not copied before the whole payload is joined.
    parts += (length, fields, value_bytes, headers_field)
    return size + len(length)


def _encode_headers(headers: tuple[Header, ...]) -> bytes:
    encoded = [_varint(len(headers))]
    for name, value in headers:
        key = name.encode()
        encoded.append(_varint(len(key)))
        encoded.append(key)
        encoded.append(_NULL if value is None else _varint(len(value)) + value)
    return b"".join(encoded)


def encode_records(records: list[Record], base_timestamp_ms: int) -> bytes:
    """The records of a batch. Their offsets do not matter: they are numbered in the order of the list."""
    parts: list[bytes] = []
    for offset_delta, (_, timestamp_ms, key, value, headers) in enumerate(records):
        append_record(parts, offset_delta, timestamp_ms - base_timestamp_ms, key, value, headers)
    return b"".join(parts)


# --- decoding ------------------------------------------------------------------------------------------------


def decode_records(payload: bytes, count: int, base_offset: int, base_timestamp_ms: int) -> list[Record]:
    """The `count` records of an uncompressed payload. Raises InvalidBatch, and nothing else, for any bytes."""
    columns = decode_columns(payload, count, base_offset, base_timestamp_ms)
    return list(map(Record._make, zip(*columns, strict=True)))


def decode_columns(payload: bytes, count: int, base_offset: int, base_timestamp_ms: int) -> RecordColumns:
    """The same, column by column. Raises InvalidBatch, and nothing else, for any bytes."""
    # Lists are allocated as records are found, but a count that cannot be true is refused without looking for them.
    if count < 0 or count * RECORD_BYTES_MIN > len(payload):
        raise InvalidBatch(f"a batch claims {count} records in {len(payload)} bytes", ErrorCode.INVALID_RECORD)
    columns = RecordColumns([], [], [], [], [])
    try:
        position = _decode_into(columns, payload, count, base_offset, base_timestamp_ms)
    except IndexError:
        raise InvalidBatch("the records of a batch end in the middle of one") from None
    if position != len(payload):
        raise InvalidBatch(f"{len(payload) - position} bytes follow the last record of a batch")
    if count and (min(columns.timestamps_ms) < _INT64_MIN or max(columns.timestamps_ms) > _INT64_MAX):
        raise InvalidBatch("the timestamp of a record does not fit 64 bits")
    return columns


def _decode_into(  # noqa: C901  One straight line over the fields of a record: calls would cost more than they tell.
    columns: RecordColumns, data: bytes, count: int, base_offset: int, base_timestamp_ms: int
) -> int:
    offsets, timestamps, keys, values, headers = columns
    position = 0
    previous_delta = -1
    for _ in range(count):
        length, position = _read_varint(data, position, _VARINT_BYTES_MAX)
        end = position + length
        if length < RECORD_BYTES_MIN - 1 or end > len(data):
            raise InvalidBatch(f"a record of {length} bytes does not fit its batch")
        # The byte at `position` holds the attributes, which no version uses.
        byte = data[position + 1]
        if byte < 0x80:
            timestamp_delta, position = (byte >> 1) ^ -(byte & 1), position + 2
        else:
            timestamp_delta, position = _read_varint(data, position + 1, _VARLONG_BYTES_MAX)
        byte = data[position]
        if byte < 0x80:
            offset_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            offset_delta, position = _read_varint(data, position, _VARINT_BYTES_MAX)
        if offset_delta <= previous_delta:
            raise InvalidBatch("the offsets of a batch do not ascend")
        previous_delta = offset_delta
        offsets.append(base_offset + offset_delta)
        timestamps.append(base_timestamp_ms + timestamp_delta)

        for column in (keys, values):
            byte = data[position]
            if byte < 0x80:
                length, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                length, position = _read_varint(data, position, _VARINT_BYTES_MAX)
            if length >= 0:
                value_end = position + length
                if value_end > end:
                    raise InvalidBatch(f"a key or value of {length} bytes reaches beyond its record")
                column.append(data[position:value_end])
                position = value_end
            elif length == -1:
                column.append(None)
            else:
                raise InvalidBatch(f"a key or value has length {length}")

        if data[position] == 0:
            headers.append(_NO_HEADERS)
            position += 1
        else:
            record_headers, position = _read_headers(data, position, end)
            headers.append(record_headers)
        if position != end:
            raise InvalidBatch(f"a record ends {end - position} bytes away from where it says")
    return position


def _read_nullable(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = _read_varint(data, position, _VARINT_BYTES_MAX)
    if length < 0:
        if length == -1:
            return None, position
        raise InvalidBatch(f"a key or value has length {length}")
    value_end = position + length
    if value_end > end:
        raise InvalidBatch(f"a key or value of {length} bytes reaches beyond its record")
    return data[position:value_end], value_end


def _read_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, position = _read_varint(data, position, _VARINT_BYTES_MAX)
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
