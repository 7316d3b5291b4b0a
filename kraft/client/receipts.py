"""Receipts connect batches to the futures that users wait for: one for a record, or one for all records of a call."""

from __future__ import annotations

from typing import Protocol

from kraft.client.sans_io.send_batch import Batch
from kraft.client.values import Delivery, RecordMetadata
from kraft.model.ids import TopicPartition


class RecordFuture(Protocol):
    """The methods that asyncio's and concurrent.futures' futures share."""

    def done(self) -> bool: ...
    def set_result(self, result: RecordMetadata, /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...


class DeliveryFuture(Protocol):
    def done(self) -> bool: ...
    def set_result(self, result: Delivery, /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...


class RecordReceipt:
    """Receipt of one record."""

    __slots__ = ("_future",)

    def __init__(self, future: RecordFuture) -> None:
        self._future = future

    def delivered(self, batch: Batch, first: int, count: int, base_offset: int, log_append_time_ms: int) -> None:
        if self._future.done():
            return
        topic, partition = batch.partition.topic, batch.partition.partition
        offset = base_offset + first if base_offset >= 0 else -1
        timestamp_ms = log_append_time_ms if log_append_time_ms >= 0 else batch.records[first].timestamp_ms
        self._future.set_result(RecordMetadata(topic, partition, offset, timestamp_ms))

    def failed(self, error: Exception) -> None:
        if not self._future.done():
            self._future.set_exception(error)


class DeliveryReceipt:
    """Receipt of all records of one `produce_many`: done when all are stored, failed at the first failure."""

    def __init__(self, future: DeliveryFuture, records: int) -> None:
        self._future = future
        self._records = records
        self._missing = records
        self._end_offsets: dict[TopicPartition, int] = {}
        self._finish_when_complete()

    def delivered(self, batch: Batch, first: int, count: int, base_offset: int, log_append_time_ms: int) -> None:
        if base_offset >= 0:
            end_offset = base_offset + first + count
            self._end_offsets[batch.partition] = max(end_offset, self._end_offsets.get(batch.partition, 0))
        self._missing -= count
        self._finish_when_complete()

    def failed(self, error: Exception) -> None:
        if not self._future.done():
            self._future.set_exception(error)

    def _finish_when_complete(self) -> None:
        if self._missing == 0 and not self._future.done():
            self._future.set_result(Delivery(records=self._records, end_offsets=self._end_offsets))
