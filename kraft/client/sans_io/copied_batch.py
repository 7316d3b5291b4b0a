"""A batch as a leader of another cluster stored it, on its way to be stored once more, still compressed."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kraft.client.sans_io.send_batch import Batch, ProducerIdentity, Receipt
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import (
    BatchHeader,
    Buffer,
    build_column_batch,
    decode_batch_columns,
    read_header,
    with_producer,
)
from kraft.log.format.record_codec import RecordColumns
from kraft.model.ids import TopicPartition


class StoredRun(NamedTuple):
    """Records of a copied batch that are stored at consecutive offsets from `base_offset` on."""

    first: int
    """Index of the first of them in the batch."""

    records: int
    base_offset: int
    """-1 for a duplicate whose offset the broker no longer has."""


class RunsFuture(Protocol):
    """The methods of asyncio's futures that a receipt uses."""

    def done(self) -> bool: ...
    def set_result(self, result: list[StoredRun], /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...


class CopiedBatch(Batch):
    """A batch whose records nobody decodes, unless the partition takes only smaller ones."""

    __slots__ = ("_data", "_header")

    def __init__(
        self, partition: TopicPartition, created_ms: int, header: BatchHeader, data: Buffer, receipt: Receipt
    ) -> None:
        """`data` is copyable, and its checksum was checked."""
        super().__init__(partition, created_ms, 0)
        self._header = header
        self._data = data
        self.size_bytes += len(data)
        self.receipts = [(receipt, 0, header.record_count)]

    @property
    def record_count(self) -> int:
        return self._header.record_count

    def encode(
        self, codec: Codec, identity: ProducerIdentity | None, base_sequence: int, *, transactional: bool = False
    ) -> None:
        producer = (-1, -1) if identity is None else (identity.producer_id, identity.producer_epoch)
        self.base_sequence = base_sequence
        self.encoded = with_producer(self._data, *producer, base_sequence, transactional=transactional)

    def _part(self, start: int, end: int) -> Batch:
        _, times_ms, keys, values, headers = decode_batch_columns(self._data)
        rows = slice(start, end)
        part = RecordColumns(list(range(end - start)), times_ms[rows], keys[rows], values[rows], headers[rows])
        data = build_column_batch(part, self._header.codec)
        ((receipt, _, _),) = self.receipts
        copied = CopiedBatch(self.partition, self.created_ms, read_header(data), data, receipt.part(start, end))
        copied.serial = self.serial
        return copied


class CopyReceipt:
    """Receipt whose future gets where the batch is stored: one run, or those of its parts if it was split."""

    def __init__(self, future: RunsFuture, records: int) -> None:
        self._future = future
        self._missing = records
        self._runs: list[StoredRun] = []

    def part(self, start: int, _end: int) -> Receipt:
        return _PartReceipt(self, start)

    def delivered(self, _batch: Batch, first: int, count: int, base_offset: int, _log_append_time_ms: int) -> None:
        self.stored(StoredRun(first, count, base_offset))

    def stored(self, run: StoredRun) -> None:
        self._runs.append(run)
        self._missing -= run.records
        if self._missing == 0 and not self._future.done():
            self._future.set_result(sorted(self._runs))

    def failed(self, error: Exception) -> None:
        if not self._future.done():
            self._future.set_exception(error)


class _PartReceipt:
    def __init__(self, whole: CopyReceipt, start: int) -> None:
        self.whole = whole
        self.start = start

    def part(self, start: int, _end: int) -> Receipt:
        return _PartReceipt(self.whole, self.start + start)

    def delivered(self, _batch: Batch, first: int, count: int, base_offset: int, _log_append_time_ms: int) -> None:
        self.whole.stored(StoredRun(self.start + first, count, base_offset))

    def failed(self, error: Exception) -> None:
        self.whole.failed(error)
