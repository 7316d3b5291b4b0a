"""One stretch of a partition's log: a `.log` file of batches back to back, and the `.index` beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kraft.log.disk import Disk, File
from kraft.log.offset_index import OffsetIndex
from kraft.log.record_batch import HEADER_BYTES, BatchHeader, Buffer, check_crc, read_header
from kraft.model.errors import Corruption, InvalidBatch
from kraft.model.ids import Offset

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF

_HEADER_WINDOW_BYTES: Final = 4 << 10
_CRC_WINDOW_BYTES: Final = 1 << 20


def file_name(base_offset: int, suffix: str) -> str:
    """Twenty digits, so that names sort as offsets do."""
    return f"{base_offset:020d}{suffix}"


def scan_batches(file: File, path: str, start: int = 0, with_crc: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch from the one that begins at `start`.

    Raises Corruption where a batch is broken or cut; everything yielded before was whole.
    """
    position = window_start = start
    window = b""
    window_bytes = _CRC_WINDOW_BYTES if with_crc else _HEADER_WINDOW_BYTES
    while position < file.size:
        if position + HEADER_BYTES > window_start + len(window):
            window, window_start = file.read_at(position, window_bytes), position
        try:
            header = read_header(window, position - window_start)
            end = position + header.size_bytes
            if end > file.size:
                raise InvalidBatch(f"a batch of {header.size_bytes} bytes reaches beyond the end of the file")
            if with_crc:
                if end > window_start + len(window):
                    window, window_start = file.read_at(position, max(window_bytes, header.size_bytes)), position
                check_crc(header, memoryview(window)[position - window_start : end - window_start])
        except InvalidBatch as error:
            raise Corruption(path, position, error.message) from None
        yield position, header
        position = end


class Segment:
    """Batches from `base_offset` on. Only the last segment of a log grows.

    The index of a segment that no longer grows is read from its file when it is first needed.
    """

    def __init__(
        self, disk: Disk, directory: str, base_offset: Offset, index_interval_bytes: int, create: bool
    ) -> None:
        self.base_offset = base_offset
        self.path = f"{directory}/{file_name(base_offset, LOG_SUFFIX)}"
        self.index_path = f"{directory}/{file_name(base_offset, INDEX_SUFFIX)}"
        self.file = disk.open(self.path, create)
        self.next_offset = base_offset
        self.max_timestamp_ms = -1
        self._max_timestamp_position = 0
        self._disk = disk
        self._index_interval_bytes = index_interval_bytes
        self._index: OffsetIndex | None = OffsetIndex(base_offset, index_interval_bytes)

    @property
    def size_bytes(self) -> int:
        return self.file.size

    def append(self, pieces: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        """Writes batches whose headers are given; their offsets continue the segment's."""
        position = self.file.append(pieces)
        for header in headers:
            self.note_batch(position, header)
            position += header.size_bytes

    def note_batch(self, position: int, header: BatchHeader) -> None:
        """Takes notice of a batch that stands in the file: it was appended, or found by recovery."""
        self.index.note_batch(header.last_offset, position, header.size_bytes)
        self.next_offset = header.next_offset
        self._note_timestamp(position, header)

    def _note_timestamp(self, position: int, header: BatchHeader) -> None:
        if header.max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp_ms
            self._max_timestamp_position = position

    # --- reading ---------------------------------------------------------------------------------------------

    def scan(self, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every batch from `start`, which must be the start of one."""
        return scan_batches(self.file, self.path, start)

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that ends at or above `offset`; the size of the segment when there is none."""
        if offset >= self.next_offset:
            return self.file.size
        for position, header in self.scan(self.index.position_before_offset(offset)):
            if header.last_offset >= offset:
                return position
        return self.file.size

    def read(self, start: Offset, bytes_max: int, upper: Offset) -> bytes:
        """Whole batches from the one that holds `start`: at least one, none that ends above `upper`."""
        begin = self.position_of(start)
        end = self.position_of(upper)
        if end - begin > bytes_max:
            end = self._boundary_before(begin, begin + bytes_max)
        return self.file.read_at(begin, end - begin) if end > begin else b""

    def _boundary_before(self, begin: int, limit: int) -> int:
        """The last end of a batch at or below `limit`, but never that before the first batch's."""
        boundary = begin
        for position, header in self.scan(max(begin, self.index.position_before_position(limit))):
            boundary = position + header.size_bytes
            if boundary > limit:
                return position if position > begin else boundary
        return boundary

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        """The whole batch; raises Corruption when its bytes are not those that were written."""
        batch = self.file.read_at(position, header.size_bytes)
        try:
            check_crc(header, batch)
        except InvalidBatch as error:
            raise Corruption(self.path, position, error.message) from None
        return batch

    def batch_with_max_timestamp(self) -> tuple[int, BatchHeader]:
        """Of a segment that is not empty."""
        return next(self.scan(self._max_timestamp_position))

    # --- shrinking -------------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> None:
        """Drops every batch that ends at or above `offset`, durably: a crash must not bring them back."""
        position = self.position_of(offset)
        index = self.index
        self.file.truncate(position)
        self.file.sync()
        index.truncate(position)
        self.next_offset = self.base_offset
        self.max_timestamp_ms = -1
        for position, header in self.scan():
            self.next_offset = header.next_offset
            self._note_timestamp(position, header)

    # --- the index file --------------------------------------------------------------------------------------

    @property
    def index(self) -> OffsetIndex:
        if self._index is None:
            self._index = self._load_index()
        return self._index

    def _load_index(self) -> OffsetIndex:
        try:
            data = self._disk.read_file(self.index_path)
            return OffsetIndex.decode(data, self.base_offset, self._index_interval_bytes, self.file.size)
        except (FileNotFoundError, ValueError):
            index = OffsetIndex(self.base_offset, self._index_interval_bytes)
            for position, header in self.scan():
                index.note_batch(header.last_offset, position, header.size_bytes)
            return index

    def write_index(self) -> bool:
        """Brings the index file up to date; true when it was not."""
        data = self.index.encode()
        if self._disk.exists(self.index_path) and self._disk.read_file(self.index_path) == data:
            return False
        self._disk.write_atomically(self.index_path, data)
        return True

    def release_index(self) -> None:
        """The segment grows no more and its index file is written: the memory is given back until it is needed."""
        self._index = None

    def remove_files(self) -> None:
        """The index first: without its log it would mean nothing, the log alone means everything."""
        if self._disk.exists(self.index_path):
            self._disk.remove(self.index_path)
        self._disk.remove(self.path)
