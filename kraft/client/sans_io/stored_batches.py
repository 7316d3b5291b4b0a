"""Record batches as leaders store them: with markers, epochs and what is known of aborted transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kraft.client.sans_io.batches import split_batches
from kraft.client.sans_io.partition_state import FetchedChunk
from kraft.log.format.compression import DECOMPRESSED_BYTES_MAX, Codec
from kraft.log.format.control_record import MarkerType, marker_in
from kraft.log.format.record_batch import BatchHeader, TimestampType, check_crc, decode_batch_columns
from kraft.log.format.record_codec import RecordColumns
from kraft.model.errors import ErrorCode, InvalidBatch
from kraft.model.ids import TopicPartition

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
