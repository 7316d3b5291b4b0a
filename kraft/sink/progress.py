"""How far each partition is: what may be committed, while requests end in any order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from kraft.model.ids import TopicPartition


class Progress:
    """For each partition, the batches that hold records of it, in the order of offsets."""

    def __init__(self) -> None:
        self._open: dict[TopicPartition, deque[tuple[int, int]]] = {}
        self._settled: set[int] = set()
        self._committed: dict[TopicPartition, int] = {}

    def added(self, batch: int, partition: TopicPartition, next_offset: int) -> None:
        """The batch has records of the partition, up to this offset. Batches are numbered in ascending order."""
        held = self._open.setdefault(partition, deque())
        if held and held[-1][0] == batch:
            held.pop()
        held.append((batch, next_offset))

    def settled(self, batch: int) -> None:
        """Every record of the batch is in the index, or in the dead letters."""
        self._settled.add(batch)

    def committable(self) -> dict[TopicPartition, int]:
        """Return the offsets to commit: below them everything is settled. Each is returned until `committed`."""
        found = dict(self._ends())
        return {partition: end for partition, end in found.items() if self._committed.get(partition) != end}

    def committed(self, offsets: dict[TopicPartition, int]) -> None:
        self._committed.update(offsets)
        for partition, end in offsets.items():
            held = self._open.get(partition, deque())
            while held and held[0][1] <= end and held[0][0] in self._settled:
                held.popleft()
        needed = {batch for held in self._open.values() for batch, _ in held}
        self._settled &= needed

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Another member has these partitions now."""
        for partition in partitions:
            self._open.pop(partition, None)
            self._committed.pop(partition, None)

    def _ends(self) -> Iterator[tuple[TopicPartition, int]]:
        for partition, held in self._open.items():
            for batch, next_offset in held:
                if batch not in self._settled:
                    break
                yield partition, next_offset
