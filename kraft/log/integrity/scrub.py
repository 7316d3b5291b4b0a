"""The scrub of one segment file: reads every batch and reports what is wrong where, without changing anything.

Checksums help only if they are computed: records that no consumer reads for months could be corrupt unnoticed until the
other replicas are gone. The fields outside a batch's checksum, base offset and leader epoch, are compared with the
neighbouring batches and segments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from crc32c import crc32c
from msgspec import Struct

from kraft.log.disk import Disk, File
from kraft.log.format.record_batch import HEADER_BYTES, BatchHeader, decode_batch_columns, read_header
from kraft.log.leader_epochs import LeaderEpochCache
from kraft.model.callbacks import CountBytes
from kraft.model.errors import Corruption, InvalidBatch
from kraft.model.ids import NO_LEADER_EPOCH, Offset

WINDOW_BYTES: Final = 1 << 20
"""Bytes in one read. A batch may be larger: its checksum is computed window by window."""

PROBLEMS_MAX: Final = 100
"""Problems reported per segment; a badly corrupt file could have millions."""

_CRC_COVERS_FROM: Final = 21
_NO_END: Final = 0x7FFFFFFFFFFFFFFF


class Expected(Struct, frozen=True, kw_only=True):
    """Expectations of a segment, from the rest of its log.

    `end_offset` is the next segment's base offset; None: the segment ends with the file. With `stops_at_end`, for the
    active segment of a log in use, batches from `end_offset` on are skipped, because they may be half written. In a
    `sparse` log, one that was compacted, offsets may be missing between and after the batches.
    """

    base_offset: Offset
    end_offset: Offset | None = None
    stops_at_end: bool = False
    sparse: bool = False
    epochs: LeaderEpochCache | None = None


class ScrubbedSegment(Struct, frozen=True, kw_only=True):
    """Result of scrubbing one segment. `problems` are in the order of the file; without any, the segment is good.

    `next_offset` is the offset after the last batch that was read; timestamps and epochs are -1 if no batch has one.
    """

    path: str
    size_bytes: int
    batches: int
    records: int
    next_offset: Offset
    max_timestamp_ms: int
    last_epoch: int
    problems: tuple[Corruption, ...]


BatchRead = Callable[[int, BatchHeader], None]
"""Called with position and header of each batch that is whole."""


def scrub_segment(
    disk: Disk,
    path: str,
    expected: Expected,
    *,
    decode_records: bool = False,
    read_bytes: CountBytes,
    batch_read: BatchRead = lambda _position, _header: None,
) -> ScrubbedSegment:
    """Read the whole file and return what is wrong.

    `read_bytes` is called with the size of each read before it is done: to throttle, or to stop by raising;
    `batch_read` with position and header of each good batch. With `decode_records` every batch is also decompressed and
    decoded. Goes on after a batch with a wrong checksum, as long as its length leads to the next one. Raises OSError,
    FileNotFoundError for a segment that is gone.
    """
    file = disk.open(path, create=False)
    try:
        return _Scrub(file, path, expected, decode_records, read_bytes, batch_read).run()
    finally:
        file.close()


def missing_segment(path: str, expected: Expected) -> ScrubbedSegment:
    """Return the result for a segment that its log still has but whose file is gone."""
    return ScrubbedSegment(
        path=path,
        size_bytes=0,
        batches=0,
        records=0,
        next_offset=expected.base_offset,
        max_timestamp_ms=-1,
        last_epoch=int(NO_LEADER_EPOCH),
        problems=(Corruption(path, 0, "the file is gone"),),
    )


class _Scrub:
    def __init__(
        self,
        file: File,
        path: str,
        expected: Expected,
        decode_records: bool,
        read_bytes: CountBytes,
        batch_read: BatchRead,
    ) -> None:
        self._file = file
        self._path = path
        self._expected = expected
        self._decode_records = decode_records
        self._read_bytes = read_bytes
        self._batch_read = batch_read
        self._size = file.size
        self._window = b""
        self._window_start = 0
        self._batches = self._records = 0
        self._next_offset = expected.base_offset
        self._max_timestamp_ms = -1
        self._epoch = int(NO_LEADER_EPOCH)
        self._problems: list[Corruption] = []
        self._lost_track = False

    def run(self) -> ScrubbedSegment:
        position = 0
        while position < self._size and len(self._problems) < PROBLEMS_MAX and not self._is_done():
            header = self._header(position)
            if header is None:
                break
            self._batch(position, header)
            position += header.size_bytes
        if not self._lost_track and len(self._problems) < PROBLEMS_MAX:
            self._check_end(position)
        return ScrubbedSegment(
            path=self._path,
            size_bytes=self._size,
            batches=self._batches,
            records=self._records,
            next_offset=self._next_offset,
            max_timestamp_ms=self._max_timestamp_ms,
            last_epoch=self._epoch,
            problems=tuple(self._problems),
        )

    # --- one batch -------------------------------------------------------------------------------------------

    def _header(self, position: int) -> BatchHeader | None:
        """Return the header at `position`; None if it is invalid: without its length the next batch cannot be found."""
        try:
            header = read_header(self._bytes(position, min(HEADER_BYTES, self._size - position)))
            if header.size_bytes > self._size - position:
                left = self._size - position
                raise InvalidBatch(f"a batch of {header.size_bytes} bytes begins {left} before the end of the file")
        except InvalidBatch as error:
            self._lost_track = True
            self._wrong(position, error.message)
            return None
        return header

    def _is_done(self) -> bool:
        return self._expected.stops_at_end and self._next_offset >= self._end

    def _batch(self, position: int, header: BatchHeader) -> None:
        reason = self._misplaced(header) or self._damaged(position, header)
        if reason is None:
            self._batches += 1
            self._records += header.record_count
            self._max_timestamp_ms = max(self._max_timestamp_ms, header.max_timestamp_ms)
            self._epoch = max(self._epoch, header.leader_epoch)
            self._next_offset = header.next_offset
            self._batch_read(position, header)
        else:
            self._wrong(position, reason)
            # The header of a bad batch is not trusted, except that the batch comes before the next segment.
            self._next_offset = Offset(max(self._next_offset, min(header.next_offset, self._end)))

    def _misplaced(self, header: BatchHeader) -> str | None:
        """Return what is wrong with the fields that the checksum does not cover; None if nothing is."""
        offset = header.base_offset
        is_gap = offset > self._next_offset and not self._expected.sparse and not self._problems
        if offset < self._next_offset or is_gap:
            return f"a batch has base offset {offset}, expected {self._next_offset}"
        if header.next_offset > self._end:
            return f"a batch ends at offset {header.last_offset}, the next segment begins at {self._end}"
        if header.leader_epoch < self._epoch:
            return f"the batch at offset {offset} has leader epoch {header.leader_epoch}, after {self._epoch}"
        epochs = self._expected.epochs
        epoch = NO_LEADER_EPOCH if epochs is None else epochs.epoch_at(Offset(offset))
        if epoch not in (NO_LEADER_EPOCH, header.leader_epoch):
            return f"the batch at offset {offset} has leader epoch {header.leader_epoch}, expected {epoch}"
        return None

    def _damaged(self, position: int, header: BatchHeader) -> str | None:
        computed = 0
        start, end = position + _CRC_COVERS_FROM, position + header.size_bytes
        while start < end:
            piece = self._bytes(start, min(WINDOW_BYTES, end - start))
            if not piece:
                return "the file became shorter while it was read"
            computed = crc32c(piece, computed)
            start += len(piece)
        if computed != header.crc:
            return f"the checksum of a batch is {computed:#010x}, its header says {header.crc:#010x}"
        if not self._decode_records:
            return None
        try:
            decode_batch_columns(self._file.read_at(position, header.size_bytes))
        except InvalidBatch as error:
            return f"the records of the batch at offset {header.base_offset} cannot be read: {error.message}"
        return None

    # --- the whole file --------------------------------------------------------------------------------------

    @property
    def _end(self) -> int:
        return _NO_END if self._expected.end_offset is None else self._expected.end_offset

    def _check_end(self, position: int) -> None:
        end = self._expected.end_offset
        if end is not None and self._next_offset < end and not self._expected.sparse:
            self._wrong(position, f"the batches end at offset {self._next_offset}, the next segment begins at {end}")

    def _wrong(self, position: int, reason: str) -> None:
        self._problems.append(Corruption(self._path, position, reason))

    def _bytes(self, position: int, size: int) -> memoryview:
        """Return `size` bytes, at most a window; fewer only if the file has become shorter."""
        begin = position - self._window_start
        if begin < 0 or begin + size > len(self._window):
            wanted = min(WINDOW_BYTES, self._size - position)
            self._read_bytes(wanted)
            self._window, self._window_start = self._file.read_at(position, wanted), position
            begin = 0
        return memoryview(self._window)[begin : begin + size]
