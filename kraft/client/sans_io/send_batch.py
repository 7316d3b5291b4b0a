"""A batch that waits to be sent to a partition's leader, or to be acknowledged."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from kraft.client.sans_io.column_records import ColumnRecords, RecordContent
from kraft.client.sans_io.task_receipt import TaskFuture, TaskReceipt
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import HEADER_BYTES, SEQUENCE_MAX, build_column_batch
from kraft.model.ids import ProducerEpoch, ProducerId, TopicPartition


class Receipt(Protocol):
    """Receives the outcome of its records, once for each. One receipt may span several batches."""

    def part(self, start: int, end: int) -> Receipt:
        """Return a receipt for the records from index `start` up to `end`."""

    def delivered(self, batch: Batch, first: int, count: int, base_offset: int, log_append_time_ms: int) -> None:
        """Called when `count` records of the batch, from index `first` on, are stored.

        `base_offset` is the batch's, -1 if unknown.
        """

    def failed(self, error: Exception) -> None: ...


class ProducerIdentity(Struct, frozen=True, kw_only=True):
    """Producer id and producer epoch, by which brokers recognise an idempotent producer."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class Batch:
    """Records for one partition. Retries send the same encoded bytes, so that brokers recognise a duplicate."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "created_ms",
        "encoded",
        "encoded_as",
        "last_reason",
        "partition",
        "receipts",
        "records",
        "sent_ms",
        "serial",
        "size_bytes",
    )

    def __init__(self, partition: TopicPartition, created_ms: int, serial: int) -> None:
        self.partition = partition
        self.created_ms = created_ms
        self.serial = serial
        """Numbers the batches of a producer; the parts of a batch that was split have the same number."""
        self.records = ColumnRecords([], [], [], [])
        self.receipts: list[tuple[Receipt, int, int]] = []
        """Each receipt, with the index of its first record and its number of records."""
        self.size_bytes = HEADER_BYTES
        """Upper limit of the size before compression."""
        self.encoded: bytes | None = None
        self.encoded_as = 0
        """Numbers the batches that were encoded for this partition."""
        self.base_sequence = -1
        self.attempts = 0
        """How often it was sent."""
        self.sent_ms = created_ms
        """The time of the last attempt; before the first one, when the batch was created."""
        self.last_reason = ""

    def add(self, records: ColumnRecords, size_bytes: int, receipt: Receipt) -> None:
        self.receipts.append((receipt, len(self.records), len(records)))
        self.records.extend(records)
        self.size_bytes += size_bytes

    def add_one(self, record: RecordContent, size_bytes: int, future: TaskFuture) -> None:
        receipt, first, count = self.receipts[-1] if self.receipts else (None, 0, 0)
        if isinstance(receipt, TaskReceipt):
            receipt.futures.append(future)
            self.receipts[-1] = receipt, first, count + 1
        else:
            self.receipts.append((TaskReceipt([future]), len(self.records), 1))
        self.records.append(record)
        self.size_bytes += size_bytes

    def encode(
        self, codec: Codec, identity: ProducerIdentity | None, base_sequence: int, *, transactional: bool = False
    ) -> None:
        producer = (-1, -1) if identity is None else (identity.producer_id, identity.producer_epoch)
        self.base_sequence = base_sequence
        columns = self.records.to_columns()
        self.encoded = build_column_batch(columns, codec, *producer, base_sequence, transactional=transactional)

    def forget_encoding(self) -> None:
        """Make the next attempt a new batch for the broker. Only valid if the broker did not store this one."""
        self.encoded = None
        self.base_sequence = -1

    @property
    def record_count(self) -> int:
        return len(self.records)

    @property
    def next_sequence(self) -> int:
        return (self.base_sequence + self.record_count) & SEQUENCE_MAX

    def halves(self) -> list[Batch]:
        """Return two batches with half of the records each, for a partition that refuses larger ones."""
        middle = self.record_count // 2
        return [self._part(0, middle), self._part(middle, self.record_count)]

    def _part(self, start: int, end: int) -> Batch:
        part = Batch(self.partition, self.created_ms, self.serial)
        part.records = self.records[start:end]
        part.size_bytes += sum(part.records.sizes())
        for receipt, first, count in self.receipts:
            overlap_start, overlap_end = max(first, start), min(first + count, end)
            if overlap_start < overlap_end:
                its_part = receipt.part(overlap_start - first, overlap_end - first)
                part.receipts.append((its_part, overlap_start - start, overlap_end - overlap_start))
        return part
