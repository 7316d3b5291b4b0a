"""A consumer with a log in memory, for readers of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kraft.client import StoredBatch, TopicPartition
from kraft.console.records.raw import Item
from kraft.console.records.reading import Limits, Reader
from kraft.log.format.record_batch import build_batch, split
from kraft.log.format.record_codec import Record

FOREVER: Final = Limits(bytes_max=1 << 40, deadline_s=1e9)


class FakeConsumer:
    """Partitions as lists of batches; a poll returns one batch of each partition that is not paused."""

    def __init__(self, logs: dict[int, list[bytes]], aborted: frozenset[tuple[int, int]] = frozenset()) -> None:
        self.logs = logs
        self.aborted = aborted
        self.positions: dict[int, int] = {}
        self.fetched: set[int] = set()
        self.polls = 0
        self.silent: frozenset[int] = frozenset()

    def assign(self, places: list[TopicPartition]) -> None:
        self.positions = {each.partition: -1 for each in places}
        self.fetched = set(self.positions)

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("orders", each) for each in self.positions]

    def pause(self, *places: TopicPartition) -> None:
        self.fetched -= {each.partition for each in places}

    def resume(self, *places: TopicPartition) -> None:
        self.fetched |= {each.partition for each in places}

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.positions[place.partition] = offset

    def poll_stored(self, timeout_ms: int) -> list[StoredBatch]:
        self.polls += 1
        found = []
        for number in sorted(self.fetched - self.silent):
            batch = next((each for each in self._batches(number) if each.next_offset > self.positions[number]), None)
            if batch is not None:
                self.positions[number] = batch.next_offset
                found.append(batch)
        return found

    def _batches(self, number: int) -> Iterator[StoredBatch]:
        for data in self.logs[number]:
            for header, batch in split(data):
                place = TopicPartition("orders", number)
                is_aborted = (number, header.base_offset) in self.aborted
                yield StoredBatch(partition=place, header=header, data=batch, is_aborted=is_aborted)


def log_of(sizes: list[int], gaps: list[int], begin_ms: int = 1_000, step_ms: int = 10) -> list[bytes]:
    """Return batches of so many records, with gaps of offsets before them."""
    found, offset, time_ms = [], 0, begin_ms
    for size, gap in zip(sizes, gaps, strict=True):
        offset += gap
        records = [Record(0, time_ms + step_ms * each, b"k", b"%d" % (offset + each)) for each in range(size)]
        found.append(build_batch(records, base_offset=offset, leader_epoch=3))
        offset, time_ms = offset + size, time_ms + step_ms * size
    return found


def reader_of(consumer: FakeConsumer, limits: Limits = FOREVER, **settings: Any) -> Reader[Item]:
    plain: Any = consumer
    return Reader(plain, "orders", limits, lambda item: item, clock=settings.pop("clock", lambda: 0.0), **settings)
