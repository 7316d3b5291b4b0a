"""Receipts of the records of a call, and the one whose future waits for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from kraft.client.model.values import Delivery
from kraft.client.sans_io.send_batch import Batch, Receipt
from kraft.model.ids import TopicPartition


class CallReceipt(Receipt, Protocol):
    """Receipt of the records of a call, which have yet to be queued."""

    def part(self, start: int, end: int) -> CallReceipt: ...
    def at(self, rows: Sequence[int]) -> CallReceipt:
        """Return a receipt for the records with these indexes, in this order."""

    def not_queued(self, error: Exception) -> None:
        """Called when records cannot be queued. Raises the error, or passes it to those who wait for the records."""


class DeliveryReceipt:
    """Receipt of all records of one `produce_many`: done when all are stored, failed at the first failure."""

    def __init__(self, future: asyncio.Future[Delivery], records: int) -> None:
        self._future = future
        self._records = records
        self._missing = records
        self._end_offsets: dict[TopicPartition, int] = {}
        self._finish_when_complete()

    def part(self, _start: int, _end: int) -> DeliveryReceipt:
        return self

    def at(self, _rows: Sequence[int]) -> DeliveryReceipt:
        return self

    def delivered(self, batch: Batch, first: int, count: int, base_offset: int, log_append_time_ms: int) -> None:
        if base_offset >= 0:
            end_offset = base_offset + first + count
            self._end_offsets[batch.partition] = max(end_offset, self._end_offsets.get(batch.partition, 0))
        self._missing -= count
        self._finish_when_complete()

    def failed(self, error: Exception) -> None:
        if not self._future.done():
            self._future.set_exception(error)

    def not_queued(self, error: Exception) -> None:
        raise error

    def _finish_when_complete(self) -> None:
        if self._missing == 0 and not self._future.done():
            self._future.set_result(Delivery(records=self._records, end_offsets=self._end_offsets))
