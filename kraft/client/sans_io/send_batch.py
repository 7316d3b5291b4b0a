"""A batch on its way to a partition's leader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import HEADER_BYTES, SEQUENCE_MAX, build_batch
from kraft.log.format.record_codec import Record
from kraft.model.ids import ProducerEpoch, ProducerId, TopicPartition

RECORD_OVERHEAD_BYTES: Final = 21
"""What a record may take beyond its key, value and headers: lengths and deltas at their longest in practice."""

_HEADER_OVERHEAD_BYTES: Final = 10


class Receipt(Protocol):
    """Told once what became of the records that it stands for. One receipt may span several batches."""

    def delivered(self, batch: Batch, first: int, count: int, base_offset: int, log_append_time_ms: int) -> None:
        """Records `first` to `first + count` of the batch are stored; `base_offset` is the batch's, -1 if unknown."""

    def failed(self, error: Exception) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdentity:
    """What brokers know an idempotent producer by."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class Batch:
    """Records for one partition. Once it has bytes, retries send these very bytes, so that brokers see a repeat."""

    __slots__ = (
        "base_sequence",
        "created_ms",
        "encoded",
        "encoded_as",
        "last_reason",
        "partition",
        "receipts",
        "records",
        "serial",
        "size_bytes",
    )

    def __init__(self, partition: TopicPartition, created_ms: int, serial: int) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.serial = serial
        """Of the batch that the records were put into; the parts of one that was split share it."""
        self.records: list[Record] = []
        self.receipts: list[tuple[Receipt, int, int]] = []
        """Who is told, with the first record and the number of records that are theirs."""
        self.size_bytes = HEADER_BYTES
        """At most this large before compression."""
        self.encoded: bytes | None = None
        self.encoded_as = 0
        """The number of this batch among those that its partition has sent."""
        self.base_sequence = -1
        self.last_reason = ""

    def add(self, records: Sequence[Record], size_bytes: int, receipt: Receipt) -> None:
        self.receipts.append((receipt, len(self.records), len(records)))
        self.records.extend(records)
        self.size_bytes += size_bytes

    def encode(self, codec: Codec, identity: ProducerIdentity | None, base_sequence: int) -> None:
        producer = (-1, -1) if identity is None else (identity.producer_id, identity.producer_epoch)
        self.base_sequence = base_sequence
        self.encoded = build_batch(self.records, codec, *producer, base_sequence)

    def forget_encoding(self) -> None:
        """The next attempt is a new batch to the broker. Right only when it is known not to hold this one."""
        self.encoded = None
        self.base_sequence = -1

    @property
    def next_sequence(self) -> int:
        return (self.base_sequence + len(self.records)) & SEQUENCE_MAX

    def halves(self) -> list[Batch]:
        """The same records in two batches, for a partition that takes only smaller ones."""
        middle = len(self.records) // 2
        return [self._part(0, middle), self._part(middle, len(self.records))]

    def _part(self, start: int, end: int) -> Batch:
        part = Batch(self.partition, self.created_ms, self.serial)
        part.records = self.records[start:end]
        part.size_bytes += sum(map(record_size, part.records))
        for receipt, first, count in self.receipts:
            overlap_start, overlap_end = max(first, start), min(first + count, end)
            if overlap_start < overlap_end:
                part.receipts.append((receipt, overlap_start - start, overlap_end - overlap_start))
        return part


def record_size(record: Record) -> int:
    """At least the bytes that the record takes in a batch without compression."""
    _, _, key, value, headers = record
    size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        # A character of a header's name takes at most four bytes.
        size += _HEADER_OVERHEAD_BYTES + len(name) * 4 + (len(content) if content else 0)
    return size
