"""Records of batches, from an offset up to a bound, without decompressing more than needed.

A batch of 100 KB may decompress to 100 MB and millions of records. Here it is decompressed only up to the last returned
record, and memory holds only one piece of it and the returned records.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from msgspec import Struct

from kraft.log.format.compression import decompressed_pieces
from kraft.log.format.record_batch import HEADER_BYTES, BatchHeader, TimestampType, read_header
from kraft.log.format.record_codec import Record, RecordFinder, decode_columns, header_count, record_size
from kraft.model.errors import ErrorCode, InvalidBatch

RECORD_BYTES_MAX: Final = 32 << 20
"""Size limit of a record that is returned alone. A larger one, with its copy, would not fit into the response."""

RECORD_HEADERS_MAX: Final = 1_000
"""Headers of a returned record. A record of a few MiB could have a million, and each becomes an object."""

BATCHES_AT_ONCE: Final = 256
"""Batches without records for a consumer that are skipped in one step."""

_INT64_MIN: Final = -0x8000000000000000


class UnpackedRecords(Struct, frozen=True, kw_only=True):
    """Result of one call. `next_offset` is the next offset to read; `error` is set if the next record is unreadable."""

    records: list[Record]
    next_offset: int
    error: InvalidBatch | None = None


def unpack_records(
    batches: bytes, start: int, records_max: int, bytes_max: int
) -> Generator[None, None, UnpackedRecords]:
    """Return the records from `start` on as a consumer sees them, without control records. Runs in steps.

    At least one record is returned, even above `bytes_max`. Each header counts as a record as well. The batches must be
    whole, and their checksums checked.
    """
    found = _UnpackedSoFar(records_max, bytes_max)
    view, position, next_offset, number = memoryview(batches), 0, start, 0
    while position < len(view) and not found.is_full:
        try:
            header = read_header(view, position)
            batch = view[position : position + header.size_bytes]
            if header.record_count and not header.is_control and header.last_offset >= start:
                yield from _take_batch(header, batch, start, found)
        except InvalidBatch as error:
            if found.records:
                break
            return UnpackedRecords(records=[], next_offset=next_offset, error=error)
        position += header.size_bytes
        next_offset = max(next_offset, header.next_offset)
        number += 1
        if number % BATCHES_AT_ONCE == 0:
            yield
    if found.records:
        next_offset = found.records[-1].offset + 1
    return UnpackedRecords(records=found.records, next_offset=next_offset)


class _UnpackedSoFar:
    """Records found so far, and the room that is left."""

    def __init__(self, records_max: int, bytes_max: int) -> None:
        self.records: list[Record] = []
        self.is_full = False
        self._records_left = records_max
        self._bytes_left = bytes_max

    def take_whole(self, data: bytes, left: int, header: BatchHeader) -> tuple[int, int]:
        """Take records from the front of `data` while they are whole and fit. Returns their number and size."""
        count = position = 0
        while count < left and not self.is_full:
            size = record_size(data, position)
            is_first = not self.records and not count
            if size == 0 or not self._has_room(position + size, is_first):
                break
            if position + size > len(data):
                break
            if not self._count(header_count(data, position), is_first):
                break
            position += size
            count += 1
        if count:
            self.records += _decoded(data[:position], count, header)
            self._bytes_left -= position
        return count, position

    def _has_room(self, size: int, is_first: bool) -> bool:
        """Return whether `size` bytes, the next record included, still fit."""
        if size <= self._bytes_left:
            return True
        self.is_full = not is_first
        if is_first and size > RECORD_BYTES_MAX:
            raise _too_large(f"a record has {size} bytes, at most {RECORD_BYTES_MAX}")
        return is_first

    def _count(self, headers: int, is_first: bool) -> bool:
        if is_first and headers > RECORD_HEADERS_MAX:
            raise _too_large(f"a record has {headers} headers, at most {RECORD_HEADERS_MAX}")
        if not is_first and headers >= self._records_left:
            self.is_full = True
            return False
        self._records_left -= 1 + headers
        self.is_full = self._records_left <= 0
        return True


def _decoded(payload: bytes, count: int, header: BatchHeader) -> list[Record]:
    columns = decode_columns(payload, count, header.base_offset, header.base_timestamp_ms)
    if columns.offsets[-1] > header.last_offset:
        raise InvalidBatch(f"a batch that ends at offset {header.last_offset} holds offset {columns.offsets[-1]}")
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        columns = columns._replace(timestamps_ms=[header.max_timestamp_ms] * count)
    return columns.to_records()


def _too_large(reason: str) -> InvalidBatch:
    return InvalidBatch(f"{reason} fit into a plain record", ErrorCode.MESSAGE_TOO_LARGE)


def _take_batch(
    header: BatchHeader, batch: memoryview, start: int, found: _UnpackedSoFar
) -> Generator[None, None, None]:
    pieces = decompressed_pieces(header.codec, batch[HEADER_BYTES:])
    finder = RecordFinder(header.record_count, _INT64_MIN, max(start - header.base_offset, 0))
    while not finder.feed(_next_piece(pieces)):
        if finder.left == 0:
            return
        yield
    data, left = finder.rest, finder.left + 1
    while True:
        count, size = found.take_whole(data, left, header)
        data, left = data[size:], left - count
        if left == 0 or found.is_full:
            return
        yield
        # Pieces are joined once they hold the whole next record, however many that takes.
        parts, held, wanted = [data], len(data), record_size(data, 0)
        while held <= len(data) or held < wanted:
            parts.append(_next_piece(pieces))
            held += len(parts[-1])
            yield
        data = b"".join(parts)


def _next_piece(pieces: Iterator[bytes]) -> bytes:
    for piece in pieces:
        if piece:
            return piece
    raise InvalidBatch("the records of a batch end in the middle of one")
