"""Receipt that connects batches to the futures of records that threads sent."""

from __future__ import annotations

from collections.abc import Sequence

from kraft.client.sans_io.send_batch import Batch
from kraft.client.sans_io.task_receipt import StoredRecords
from kraft.client.threads.record_future import RecordFuture, finish_records


class ThreadReceipt:
    """Receipt of records that threads sent, with the future of each."""

    __slots__ = ("futures",)

    def __init__(self, futures: list[RecordFuture]) -> None:
        self.futures = futures

    def part(self, start: int, end: int) -> ThreadReceipt:
        return ThreadReceipt(self.futures[start:end])

    def at(self, rows: Sequence[int]) -> ThreadReceipt:
        return ThreadReceipt([self.futures[row] for row in rows])

    def delivered(self, batch: Batch, first: int, count: int, base_offset: int, log_append_time_ms: int) -> None:
        finish_records(self.futures, StoredRecords.of(batch, first, count, base_offset, log_append_time_ms))

    def failed(self, error: Exception) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(error)

    def not_queued(self, error: Exception) -> None:
        self.failed(error)
