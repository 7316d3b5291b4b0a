"""Readers for a segment's files that may be corrupt, whatever their size, in bounded memory.

For `kraft log dump` and `kraft log verify`. Reads and recovery stop at the first batch with a wrong checksum. These
readers return that batch too and go on after it, because its header still says where the next one begins.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from kraft.log.disk import ReadableFile
from kraft.log.format.record_batch import HEADER_BYTES, BatchHeader, read_header
from kraft.log.transactions.aborted import ENTRY_BYTES as ABORTED_ENTRY_BYTES
from kraft.log.transactions.aborted import AbortedTxn, decode_entries
from kraft.model.errors import Corruption, InvalidBatch

_WINDOW_BYTES: Final = 1 << 20
_CRC_COVERS_FROM: Final = 21
_ENTRIES_AT_ONCE: Final = 4096
_INDEX_ENTRY: Final = struct.Struct(">II")
_TIME_INDEX_ENTRY: Final = struct.Struct(">qI")

INDEX_ENTRY_BYTES: Final = _INDEX_ENTRY.size
TIME_INDEX_ENTRY_BYTES: Final = _TIME_INDEX_ENTRY.size


class InspectedBatch(NamedTuple):
    """A batch as stored. `computed_crc` is the checksum of its bytes, which may differ from that in the header."""

    position: int
    header: BatchHeader
    computed_crc: int

    @property
    def is_valid(self) -> bool:
        return self.computed_crc == self.header.crc

    @property
    def end(self) -> int:
        return self.position + self.header.size_bytes


def inspect_batches(
    file: ReadableFile, path: str, start: int = 0, end: int | None = None, with_crc: bool = True
) -> Iterator[InspectedBatch]:
    """Yield every batch from `start`, where one begins, to `end` (None: of the file), even with a wrong checksum.

    Raises Corruption where no batch can be read: its header is invalid, or it reaches beyond `end`. Without `with_crc`
    checksums are not computed and count as right. Uses at most 1 MiB, however long a batch claims to be.
    """
    limit = file.size if end is None else min(end, file.size)
    window = _Window(file, _WINDOW_BYTES if with_crc else HEADER_BYTES)
    position = start
    while position < limit:
        try:
            header = read_header(window.at(position, min(HEADER_BYTES, limit - position)))
        except InvalidBatch as error:
            raise Corruption(path, position, error.message) from None
        batch_end = position + header.size_bytes
        if batch_end > limit:
            raise Corruption(
                path, position, f"a batch of {header.size_bytes} bytes reaches beyond the end of the file at {limit}"
            )
        computed = window.crc(position + _CRC_COVERS_FROM, batch_end) if with_crc else header.crc
        yield InspectedBatch(position, header, computed)
        position = batch_end


class _Window:
    """Buffer with the part of the file that was read last."""

    def __init__(self, file: ReadableFile, size: int) -> None:
        self._file = file
        self._size = size
        self._data = b""
        self._start = 0

    def at(self, position: int, size: int) -> memoryview:
        """Return `size` bytes, at most the window's size; fewer at the end of the file."""
        if not self._start <= position or position + size > self._start + len(self._data):
            self._data, self._start = self._file.read_at(position, self._size), position
        return memoryview(self._data)[position - self._start : position - self._start + size]

    def crc(self, begin: int, end: int) -> int:
        computed = 0
        while begin < end:
            piece = self.at(begin, min(end - begin, self._size))
            if not piece:
                # The file was truncated while it was read; the checksum of a part of the batch is wrong anyway.
                break
            computed = crc32c(piece, computed)
            begin += len(piece)
        return computed


class IndexEntry(NamedTuple):
    """Entry of an offset index: the batch with last offset `offset` begins at `position` in the `.log`."""

    offset: int
    position: int


class TimeIndexEntry(NamedTuple):
    """Entry of a time index: up to `offset`, the last of its batch, no record is younger than `timestamp_ms`."""

    timestamp_ms: int
    offset: int


def index_entries(file: ReadableFile, path: str, base_offset: int) -> Iterator[IndexEntry]:
    """Yield the entries of an `.index`, up to zeros that a crash may leave. Raises Corruption at a partial entry."""
    for number, (relative_offset, position) in enumerate(_entries(file, path, _INDEX_ENTRY)):
        if number and relative_offset == position == 0:
            return
        yield IndexEntry(base_offset + relative_offset, position)


def time_index_entries(file: ReadableFile, path: str, base_offset: int) -> Iterator[TimeIndexEntry]:
    """Yield the entries of a `.timeindex` in the same way."""
    for number, (timestamp_ms, relative_offset) in enumerate(_entries(file, path, _TIME_INDEX_ENTRY)):
        if number and timestamp_ms == relative_offset == 0:
            return
        yield TimeIndexEntry(timestamp_ms, base_offset + relative_offset)


def aborted_entries(file: ReadableFile, path: str) -> Iterator[AbortedTxn]:
    """Yield the entries of a `.txnindex`. Raises Corruption at an entry of another version, or a partial one."""
    whole = file.size - file.size % ABORTED_ENTRY_BYTES
    for position in range(0, whole, ABORTED_ENTRY_BYTES * _ENTRIES_AT_ONCE):
        data = file.read_at(position, min(ABORTED_ENTRY_BYTES * _ENTRIES_AT_ONCE, whole - position))
        for number, start in enumerate(range(0, len(data), ABORTED_ENTRY_BYTES)):
            try:
                yield from decode_entries(data[start : start + ABORTED_ENTRY_BYTES])
            except ValueError as error:
                raise Corruption(path, position + number * ABORTED_ENTRY_BYTES, str(error)) from None
    _check_whole(file, path, ABORTED_ENTRY_BYTES)


def _entries(file: ReadableFile, path: str, layout: struct.Struct) -> Iterator[tuple[int, ...]]:
    whole = file.size - file.size % layout.size
    for position in range(0, whole, layout.size * _ENTRIES_AT_ONCE):
        yield from layout.iter_unpack(file.read_at(position, min(layout.size * _ENTRIES_AT_ONCE, whole - position)))
    _check_whole(file, path, layout.size)


def _check_whole(file: ReadableFile, path: str, entry_bytes: int) -> None:
    if rest := file.size % entry_bytes:
        reason = f"{rest} bytes at the end are not a whole entry of {entry_bytes} bytes"
        raise Corruption(path, file.size - rest, reason)
