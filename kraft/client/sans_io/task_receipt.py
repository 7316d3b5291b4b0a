"""Receipt of records that tasks sent one by one, and where a broker stored them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kraft.client.model.values import RecordMetadata

if TYPE_CHECKING:
    from kraft.client.sans_io.send_batch import Batch


class TaskFuture(Protocol):
    """The methods of asyncio's futures that a receipt uses."""

    def done(self) -> bool: ...
    def set_result(self, result: RecordMetadata, /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...


class StoredRecords(NamedTuple):
    """Records that are stored at consecutive offsets, -1 if these are unknown."""

    topic: str
    partition: int
    start: int
    times_ms: Sequence[int]

    @classmethod
    def of(cls, batch: Batch, first: int, count: int, base_offset: int, log_append_time_ms: int) -> StoredRecords:
        """Return where these records of a stored batch are."""
        start = base_offset + first if base_offset >= 0 else -1
        has_append_time = log_append_time_ms >= 0
        times_ms = [log_append_time_ms] * count if has_append_time else batch.records.times_ms[first : first + count]
        return cls(batch.partition.topic, batch.partition.partition, start, times_ms)

    def metadata(self, row: int) -> RecordMetadata:
        offset = self.start + row if self.start >= 0 else -1
        return RecordMetadata(self.topic, self.partition, offset, self.times_ms[row])


class TaskReceipt:
    """Receipt of records with the future of each."""

    __slots__ = ("futures",)

    def __init__(self, futures: list[TaskFuture]) -> None:
        self.futures = futures

    def part(self, start: int, end: int) -> TaskReceipt:
        return TaskReceipt(self.futures[start:end])

    def delivered(self, batch: Batch, first: int, count: int, base_offset: int, log_append_time_ms: int) -> None:
        stored = StoredRecords.of(batch, first, count, base_offset, log_append_time_ms)
        for row, future in enumerate(self.futures):
            if not future.done():
                future.set_result(stored.metadata(row))

    def failed(self, error: Exception) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(error)
