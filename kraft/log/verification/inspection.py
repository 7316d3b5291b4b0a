"""Reading the files of a segment that may be broken, whatever their size, in bounded memory.

For `kraft log dump` and `kraft log verify`. Serving and recovering a log stop at the first batch whose checksum does
not fit. Whoever looks for what is wrong wants to know that batch too, and goes on behind it, because its header still
says where the next one begins.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from crc32c import crc32c

from kraft.log.format.record_batch import HEADER_BYTES, BatchHeader, read_header
from kraft.model.errors import Corruption, InvalidBatch

_WINDOW_BYTES: Final = 1 << 20
_CRC_COVERS_FROM: Final = 21
_ENTRIES_AT_ONCE: Final = 4096
_INDEX_ENTRY: Final = struct.Struct(">II")
_TIME_INDEX_ENTRY: Final = struct.Struct(">qI")

INDEX_ENTRY_BYTES: Final = _INDEX_ENTRY.size
TIME_INDEX_ENTRY_BYTES: Final = _TIME_INDEX_ENTRY.size


class ReadableFile(Protocol):
    """What looking at a file asks of it; `kraft.log.disk.File` is more."""

    @property
    def size(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes: ...


class InspectedBatch(NamedTuple):
    """A batch as it stands in the file; `computed_crc` is that of its bytes, which its header may contradict."""

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
    """Every batch from `start`, which begins one, to `end` (the file's, when None); checksums are told, not judged.

    Raises Corruption where no batch can be read any more: its header breaks the format, or it reaches beyond `end`.
    Without `with_crc` every checksum passes for fitting. At most 1 MiB is held, however long a batch claims to be.
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
    """The stretch of the file that was read last."""

    def __init__(self, file: ReadableFile, size: int) -> None:
        self._file = file
        self._size = size
        self._data = b""
        self._start = 0

    def at(self, position: int, size: int) -> memoryview:
        """`size` bytes, fewer where the file ends; not more than the window's own size is asked for."""
        if not self._start <= position or position + size > self._start + len(self._data):
            self._data, self._start = self._file.read_at(position, self._size), position
        return memoryview(self._data)[position - self._start : position - self._start + size]

    def crc(self, begin: int, end: int) -> int:
        computed = 0
        while begin < end:
            piece = self.at(begin, min(end - begin, self._size))
            if not piece:
                # The file was cut while it was read; the checksum of less than the batch fits nothing.
                break
            computed = crc32c(piece, computed)
            begin += len(piece)
        return computed


class IndexEntry(NamedTuple):
    """The batch that ends at `offset` begins at `position` of the `.log`."""

    offset: int
    position: int


class TimeIndexEntry(NamedTuple):
    """Up to `offset`, the last of its batch, no record is younger than `timestamp_ms`."""

    timestamp_ms: int
    offset: int


def index_entries(file: ReadableFile, path: str, base_offset: int) -> Iterator[IndexEntry]:
    """The entries of an `.index`, up to the zeros that a crash may leave. Raises Corruption behind what is whole."""
    for number, (relative_offset, position) in enumerate(_entries(file, path, _INDEX_ENTRY)):
        if number and relative_offset == position == 0:
            return
        yield IndexEntry(base_offset + relative_offset, position)


def time_index_entries(file: ReadableFile, path: str, base_offset: int) -> Iterator[TimeIndexEntry]:
    """The same of a `.timeindex`."""
    for number, (timestamp_ms, relative_offset) in enumerate(_entries(file, path, _TIME_INDEX_ENTRY)):
        if number and timestamp_ms == relative_offset == 0:
            return
        yield TimeIndexEntry(timestamp_ms, base_offset + relative_offset)


def _entries(file: ReadableFile, path: str, layout: struct.Struct) -> Iterator[tuple[int, ...]]:
    whole = file.size - file.size % layout.size
    for position in range(0, whole, layout.size * _ENTRIES_AT_ONCE):
        yield from layout.iter_unpack(file.read_at(position, min(layout.size * _ENTRIES_AT_ONCE, whole - position)))
    if whole < file.size:
        raise Corruption(path, whole, f"{file.size - whole} bytes at the end are no entry of {layout.size} bytes")
