"""Decodes fetched record batches into Arrow's buffers, in chunks of bounded size.

Many small batches become one chunk, and one large batch becomes several: of a compressed batch only a part is in memory
at a time, whatever it decompresses to.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Final

from msgspec import Struct

from kraft.client.bulk.range_reader import FetchedBatches
from kraft.client.sans_io.aborted_records import AbortedRecords
from kraft.log.format.arrow_columns import ArrowColumns, ColumnBuffers, WantedColumns
from kraft.log.format.compression import Codec, decompressed_bytes_max, decompressed_parts
from kraft.log.format.record_batch import HEADER_BYTES, BatchHeader, TimestampType, check_crc
from kraft.log.format.record_codec import record_size
from kraft.model.errors import InvalidBatch, KraftError
from kraft.model.ids import TopicPartition

CHUNK_RECORDS_MAX: Final = 20_000
CHUNK_BYTES_MAX: Final = 4 << 20
"""Limits of a chunk. One record may exceed the second."""

PART_BYTES: Final = 4 << 20
"""Bytes of a compressed batch that are decompressed at a time; more only for one larger record."""

HELD_BYTES_MAX: Final = 8 << 20
"""Limit of the fetched and decompressed bytes that a chunk keeps alive, also for columns that are not wanted. The last
response or part may exceed it."""


class ArrowChunk(Struct, frozen=True, kw_only=True):
    """Records of one partition as columns in Arrow's format, ordered by offset; never empty."""

    partition: TopicPartition
    timestamp_type: TimestampType
    columns: ColumnBuffers
    next_offset: int
    """The offset to continue from. It can be more than the last offset here plus one, because offsets may have gaps."""


def arrow_chunks(
    partition: TopicPartition,
    fetched: Iterable[FetchedBatches],
    start: int,
    end: int,
    wanted: WantedColumns,
    *,
    check_crcs: bool = True,
) -> Iterator[ArrowChunk]:
    """Yield the records with offsets from `start` up to `end`, excluded, as a consumer sees them.

    Records before an error are yielded before it is raised. Raises InvalidBatch, and what `fetched` raises.
    """
    decoder = _Decoder(partition, start, end, wanted, check_crcs=check_crcs)
    failure: KraftError | None = None
    try:
        for each in fetched:
            yield from decoder.take(each)
            if not each.more_follow:
                # The next one may take long.
                yield from decoder.flush()
    except KraftError as error:
        failure = error
    yield from decoder.flush()
    if failure is not None:
        raise failure


class _Decoder:
    def __init__(
        self, partition: TopicPartition, start: int, end: int, wanted: WantedColumns, *, check_crcs: bool
    ) -> None:
        self._partition = partition
        self._next_offset = start
        self._end = end
        self._check_crcs = check_crcs
        self._columns = ArrowColumns(wanted, CHUNK_RECORDS_MAX, CHUNK_BYTES_MAX)
        self._timestamp_type = TimestampType.CREATE_TIME
        self._held_bytes = 0

    def take(self, fetched: FetchedBatches) -> Iterator[ArrowChunk]:
        view = memoryview(fetched.data)
        aborted = AbortedRecords(fetched.aborted)
        for header, begin in fetched.batches:
            if header.base_offset >= self._end:
                return
            batch = view[begin : begin + header.size_bytes]
            is_aborted = aborted.has(header, batch)
            if header.next_offset <= self._next_offset:
                continue
            if not header.is_control and not is_aborted:
                try:
                    yield from self._take_batch(header, fetched.data, begin, batch)
                except InvalidBatch as error:
                    where = f"{self._partition} at offset {header.base_offset}"
                    raise InvalidBatch(f"{where}: {error.message}", error.error_code) from error
            self._next_offset = min(self._end, header.next_offset)
        yield from self._hold(len(fetched.data))

    def flush(self) -> Iterator[ArrowChunk]:
        self._held_bytes = 0
        if self._columns.count:
            yield ArrowChunk(
                partition=self._partition,
                timestamp_type=self._timestamp_type,
                columns=self._columns.finish(),
                next_offset=self._next_offset,
            )

    def _hold(self, size_bytes: int) -> Iterator[ArrowChunk]:
        """Note that the columns point into more bytes. Yield a chunk if they keep too many of them alive."""
        self._held_bytes += size_bytes
        if self._held_bytes < HELD_BYTES_MAX:
            return
        yield from self.flush()
        if not self._columns.count:
            # All that these bytes had lies before the range.
            self._columns.finish()

    def _take_batch(self, header: BatchHeader, data: bytes, begin: int, batch: memoryview) -> Iterator[ArrowChunk]:
        if self._check_crcs:
            check_crc(header, batch)
        if header.timestamp_type is not self._timestamp_type:
            yield from self.flush()
            self._timestamp_type = header.timestamp_type
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        payload_bytes = len(batch) - HEADER_BYTES
        is_packed = header.codec is not Codec.NONE
        self._columns.begin(
            count=header.record_count,
            size_bytes=decompressed_bytes_max(payload_bytes) if is_packed else payload_bytes,
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            base_timestamp_ms=header.base_timestamp_ms,
            append_time_ms=header.max_timestamp_ms if is_append_time else None,
            start=self._next_offset,
            end=self._end,
        )
        if is_packed:
            yield from self._take_parts(decompressed_parts(header.codec, batch[HEADER_BYTES:], PART_BYTES))
        else:
            end = begin + len(batch)
            position = yield from self._take_records(data, begin + HEADER_BYTES, end)
            self._check_ended(position, end)

    def _take_parts(self, parts: Iterator[bytes]) -> Iterator[ArrowChunk]:
        rest = b""
        for part in parts:
            data = _with_whole_record(rest + part if rest else part, parts)
            position = yield from self._take_records(data, 0, len(data))
            if self._columns.is_past_end:
                return
            rest = data[position:]
            self._next_offset = max(self._next_offset, self._columns.next_offset)
            yield from self._hold(len(data))
        self._check_ended(0, len(rest))

    def _take_records(self, data: bytes, position: int, end: int) -> Generator[ArrowChunk, None, int]:
        """Take every whole record. Returns the position behind the last one."""
        while True:
            position = self._columns.take(data, position, end)
            if not self._columns.is_full:
                return position
            self._next_offset = max(self._next_offset, self._columns.next_offset)
            yield from self.flush()

    def _check_ended(self, position: int, end: int) -> None:
        if self._columns.is_past_end:
            return
        if self._columns.left:
            raise InvalidBatch("the records of a batch end in the middle of one")
        if position != end:
            raise InvalidBatch(f"{end - position} bytes follow the last record of a batch")


def _with_whole_record(data: bytes, parts: Iterator[bytes]) -> bytes:
    """Return `data`, continued until its first record is whole or nothing is left."""
    wanted = record_size(data, 0)
    if wanted <= len(data):
        return data
    pieces, size = [data], len(data)
    for part in parts:
        pieces.append(part)
        size += len(part)
        if size >= wanted:
            break
    return b"".join(pieces)
