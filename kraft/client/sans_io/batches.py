"""Decodes fetched bytes into columns and records, trimmed to the requested offsets, or shows batches as they are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Final

from msgspec import Struct

from kraft.client.model.values import ConsumerRecord, PartitionColumns
from kraft.client.sans_io.aborted_records import AbortedRecords
from kraft.client.sans_io.partition_state import FetchedChunk
from kraft.log.format.compression import DECOMPRESSED_BYTES_MAX, Codec
from kraft.log.format.control_record import MarkerType, marker_in
from kraft.log.format.record_batch import BatchHeader, Buffer, TimestampType, check_crc, decode_batch_columns, split
from kraft.log.format.record_codec import RecordColumns
from kraft.model.errors import ErrorCode, InvalidBatch
from kraft.model.fetch import AbortedTransaction
from kraft.model.ids import TopicPartition


def split_batches(
    records: Buffer, start: int, end: int | None = None, aborted: Sequence[AbortedTransaction] = ()
) -> Iterator[tuple[BatchHeader, memoryview, bool]]:
    """Yield the record batches in fetched bytes that hold offsets from `start` up to `end`, excluded.

    The third value is True for a batch of one of the aborted transactions. Raises InvalidBatch.
    """
    transactions = AbortedRecords(aborted)
    for header, batch in split(records):
        if end is not None and header.base_offset >= end:
            return
        is_aborted = transactions.has(header, batch)
        if header.next_offset > start:
            yield header, batch, is_aborted


def decode_columns(
    partition: TopicPartition,
    records: Buffer,
    start: int,
    end: int | None = None,
    *,
    check_crcs: bool = True,
    aborted: Sequence[AbortedTransaction] = (),
) -> Iterator[PartitionColumns]:
    """Yield columns batch by batch, with offsets from `start` up to `end`, excluded. Raises InvalidBatch.

    A batch without records for a reader (a transaction's marker, or of an aborted transaction) gives empty columns, so
    that reading continues after its offset.
    """
    for header, batch, is_aborted in split_batches(records, start, end, aborted):
        try:
            if check_crcs:
                check_crc(header, batch)
            columns = _NOTHING if header.is_control or is_aborted else decode_batch_columns(batch)
        except InvalidBatch as error:
            where = f"{partition} at offset {header.base_offset}"
            raise InvalidBatch(f"{where}: {error.message}", error.error_code) from error
        if header.base_offset < start or (end is not None and header.next_offset > end):
            columns = _trimmed(columns, start, end)
        next_offset = header.next_offset if end is None else min(end, header.next_offset)
        yield PartitionColumns(
            partition=partition, timestamp_type=header.timestamp_type, columns=columns, next_offset=next_offset
        )


def records_of(part: PartitionColumns) -> list[ConsumerRecord]:
    """Return the columns as records."""
    count = len(part.columns.offsets)
    offsets, times_ms, keys, values, headers = part.columns
    topics, partitions = repeat(part.partition.topic, count), repeat(part.partition.partition, count)
    stamped = repeat(part.timestamp_type, count)
    return list(
        map(_new_record, zip(topics, partitions, offsets, times_ms, stamped, keys, values, headers, strict=True))
    )


_new_record: Final = partial(tuple.__new__, ConsumerRecord)
"""`ConsumerRecord._make` without its step through the interpreter, which takes most of the time."""

_NOTHING = RecordColumns([], [], [], [], [])


def _trimmed(columns: RecordColumns, start: int, end: int | None) -> RecordColumns:
    first = bisect_left(columns.offsets, start)
    last = len(columns.offsets) if end is None else bisect_left(columns.offsets, end)
    return RecordColumns(
        columns.offsets[first:last],
        columns.timestamps_ms[first:last],
        columns.keys[first:last],
        columns.values[first:last],
        columns.headers[first:last],
    )


# --- batches as leaders store them -------------------------------------------------------------------------------

_MARKERS: Final = {MarkerType.ABORT: "abort", MarkerType.COMMIT: "commit"}


class StoredBatch(Struct, frozen=True, kw_only=True):
    """A batch that was fetched. Its records are neither checked nor decompressed before `records`."""

    partition: TopicPartition
    header: BatchHeader
    data: memoryview
    is_aborted: bool
    """Whether its transaction was aborted; False as well where that is not known, with read_uncommitted."""

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def next_offset(self) -> int:
        return self.header.next_offset

    @property
    def leader_epoch(self) -> int:
        return self.header.leader_epoch

    @property
    def record_count(self) -> int:
        return self.header.record_count

    @property
    def size_bytes(self) -> int:
        """Size as it is stored, header included."""
        return self.header.size_bytes

    @property
    def codec(self) -> Codec:
        return self.header.codec

    @property
    def timestamp_type(self) -> TimestampType:
        return self.header.timestamp_type

    @property
    def timestamp_ms(self) -> int:
        """The latest of its records."""
        return self.header.max_timestamp_ms

    @property
    def producer_id(self) -> int:
        """-1 without idempotence."""
        return self.header.producer_id

    @property
    def is_transactional(self) -> bool:
        return self.header.is_transactional

    @property
    def is_control(self) -> bool:
        """Whether it holds what brokers wrote for themselves."""
        return self.header.is_control

    @property
    def marker(self) -> str:
        """Return "commit" or "abort" for the end of a transaction, otherwise nothing."""
        found = marker_in(self.header, self.data)
        return "" if found is None else _MARKERS[found.type]

    def records(
        self, bytes_max: int = DECOMPRESSED_BYTES_MAX, records_max: int = DECOMPRESSED_BYTES_MAX
    ) -> RecordColumns:
        """Return all records of the batch; control records, too.

        Raises InvalidBatch for a wrong checksum, and for more than `bytes_max` after decompression or more than
        `records_max` records, before they take memory.
        """
        if self.record_count > records_max:
            raise InvalidBatch(
                f"a batch holds {self.record_count:,} records, more than {records_max:,}", ErrorCode.INVALID_RECORD
            )
        check_crc(self.header, self.data)
        return decode_batch_columns(self.data, bytes_max)


def stored_batches(partition: TopicPartition, chunk: FetchedChunk, start: int) -> Iterator[StoredBatch]:
    """Yield the batches of a response that hold offsets from `start` on. Raises InvalidBatch."""
    for header, data, is_aborted in split_batches(chunk.records, start, aborted=chunk.aborted):
        yield StoredBatch(partition=partition, header=header, data=data, is_aborted=is_aborted)
