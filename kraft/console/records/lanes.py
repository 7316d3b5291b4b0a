"""What a reader holds of one partition: batches that wait, and the record whose turn is next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from kraft.client import StoredBatch
from kraft.console.records.raw import Item, items_of

Looked = TypeVar("Looked")
"""What is kept of a record after somebody looked at it."""


class Lane:
    """Records from an offset on, the oldest first."""

    def __init__(self, number: int, start: int, end: int, bytes_max: int, *, with_markers: bool) -> None:
        self.number = number
        self.position = start
        """The next offset to read, after what was taken."""

        self.end = end
        self.hidden = 0
        """Records of aborted transactions that were passed."""

        self.is_left_out = False
        self._fetched = start
        self._bytes_max = bytes_max
        self._with_markers = with_markers
        self._batches: deque[StoredBatch] = deque()
        self._items: Iterator[Item] = iter(())
        self._after = start
        """Where the batch ends whose items are read now."""

        self._head: Item | None = None

    @property
    def needs_more(self) -> bool:
        return self._fetched < self.end and not self.is_left_out

    def put(self, batch: StoredBatch) -> None:
        self._fetched = max(self._fetched, batch.next_offset)
        if batch.base_offset < self.end:
            self._batches.append(batch)

    def settle(self) -> bool:
        """Return whether there is a record to take; batches without one are passed."""
        while self._head is None:
            self._head = next(self._items, None)
            if self._head is not None:
                return True
            self.position = max(self.position, min(self._after, self.end))
            if not self._batches:
                if self._fetched >= self.end:
                    self.position = self.end
                return False
            batch = self._batches.popleft()
            self._after = batch.next_offset
            if batch.is_aborted:
                within = min(batch.next_offset, self.end) - max(batch.base_offset, self.position)
                self.hidden += min(batch.record_count, within)
            else:
                self._items = items_of(batch, self.position, self.end, self._bytes_max, with_markers=self._with_markers)
        return True

    @property
    def turn_ms(self) -> int:
        assert self._head is not None, "settled"
        return self._head.timestamp_ms

    def take(self) -> Item:
        assert self._head is not None, "settled"
        item, self._head = self._head, None
        self.position = item.next_offset
        return item


class Stack(Generic[Looked]):
    """Records before an offset, the newest first: read block by block, each in the order of the log."""

    def __init__(self, number: int, start: int, before: int) -> None:
        self.number = number
        self.position = before
        """The offset before which reading goes on, below what was taken."""

        self.hidden = 0
        self.is_left_out = False
        self._start = start
        self.floor = before
        """Where the block begins that was read last."""

        self._items: list[tuple[int, int, Looked]] = []
        """Offset, timestamp, and what is kept: a block of whole records might not fit into memory."""

    @property
    def needs_more(self) -> bool:
        return self.floor > self._start and not self.is_left_out

    def next_block(self, offsets: int) -> tuple[int, int]:
        return max(self._start, self.floor - offsets), self.floor

    def put(self, items: list[tuple[int, int, Looked]], floor: int) -> None:
        assert not self._items, "one block at a time"
        self._items, self.floor = items, floor

    def settle(self) -> bool:
        if not self._items:
            self.position = self.floor
        return bool(self._items)

    @property
    def turn_ms(self) -> int:
        return self._items[-1][1]

    def take(self) -> Looked:
        self.position, _, looked = self._items.pop()
        return looked
