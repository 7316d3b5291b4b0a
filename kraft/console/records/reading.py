"""Reads of a few records from a topic's partitions, by offsets: bounded in bytes, time and memory, merged by time.

A reader takes partitions from offsets on (`forward`), or what they hold before offsets (`backward`), and yields records
in the order of their timestamps, as far as each partition itself is in that order. It may be stopped after any record:
`positions` then says where to go on. Nothing is committed, and no group is joined.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

from msgspec import Struct

from kraft.client import KraftError, TopicPartition
from kraft.console.records.lanes import Lane, Looked, Stack
from kraft.console.records.raw import Item, RawRecord, Unreadable

if TYPE_CHECKING:
    from kraft.client import Consumer

__all__ = ["Limits", "Range", "RawRecord", "Reader", "Unreadable", "read_settings"]

FETCH_BYTES: Final = 1 << 20
"""Bytes of one response, and of what is fetched ahead from one leader; a larger batch comes alone."""

PARTITION_FETCH_BYTES: Final = 256 << 10

DECODED_BYTES_MAX: Final = 48 << 20
"""Bytes of decompressed batches at a time, of all partitions that are read together."""

SILENT_S: Final = 0.7
"""A partition that sends nothing for so long is left out."""

_BLOCK_BYTES: Final = 4 << 20
"""Decompressed bytes that a step backwards aims at."""

_BLOCK_OFFSETS_MAX: Final = 20_000
_BLOCK_GROWTH: Final = 8


class Limits(Struct, frozen=True, kw_only=True):
    """What one reader may use."""

    bytes_max: int
    """Fetched bytes, after which nothing more is fetched."""

    deadline_s: float
    """Of the reader's clock."""


class Range(NamedTuple):
    """Offsets of a partition, `end` excluded."""

    start: int
    end: int


def read_settings(*, committed: bool) -> dict[str, Any]:
    """Return the settings of a consumer for readers."""
    return {
        "auto_offset_reset": "none",
        "enable_auto_commit": False,
        "isolation_level": "read_committed" if committed else "read_uncommitted",
        "fetch_max_bytes": FETCH_BYTES,
        "max_partition_fetch_bytes": PARTITION_FETCH_BYTES,
        "fetch_max_wait_ms": 300,
    }


def assign_paused(consumer: Consumer, places: Collection[TopicPartition]) -> None:
    """Assign partitions of which nothing is fetched before a seek and a resume."""
    consumer.assign(places)
    for each in places:
        # Without a position, a poll would raise.
        consumer.seek(each, 0)
    if places:
        consumer.pause(*places)


class Reader(Generic[Looked]):
    """Reads once, forward or backward. The caller closes the consumer.

    `look` says what is kept of each record, and is called once for each that is read; some of what it returns may not
    be yielded, if the caller stops before.
    """

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        limits: Limits,
        look: Callable[[Item], Looked],
        *,
        with_markers: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._limits = limits
        self._look = look
        self._with_markers = with_markers
        self._clock = clock
        self._lanes: Collection[Lane | Stack[Looked]] = ()
        self._is_fetched: dict[int, bool] = {}
        """By partition; others are paused."""

        self._record_bytes = 1_024.0
        """Of a record, decompressed, as far as is known."""

        self.fetched_bytes = 0
        self.stopped = ""
        """Why reading ended before the ranges did: "bytes" or "time"."""

        self.problems: list[str] = []
        """Of partitions that were left out."""

    @property
    def positions(self) -> dict[int, int]:
        """The next offset of each partition; backward, the one before which to go on."""
        return {each.number: each.position for each in self._lanes}

    @property
    def hidden(self) -> int:
        """Records of aborted transactions that were passed."""
        return sum(each.hidden for each in self._lanes)

    def forward(self, ranges: Mapping[int, Range]) -> Iterator[Looked]:
        """Yield what the ranges hold, the oldest first. Raises KraftError if nothing can be read at all."""
        lanes = self._lanes_of(ranges)
        self._lanes = lanes
        self._assign(ranges)
        self._seek(lanes)
        while True:
            settled = [each for each in lanes if each.settle()]
            waiting = [each for each in lanes if each not in settled and each.needs_more]
            if self._may_fill(bool(waiting)):
                self._fill(waiting)
            elif not settled or self.stopped == "time":
                return
            else:
                yield self._look(min(settled, key=lambda each: each.turn_ms).take())

    def backward(self, ranges: Mapping[int, Range]) -> Iterator[Looked]:
        """Yield what the ranges hold, the newest first. Raises KraftError if nothing can be read at all."""
        stacks: list[Stack[Looked]] = [Stack(number, each.start, each.end) for number, each in ranges.items()]
        self._lanes = stacks
        self._assign(ranges)
        offsets = 1
        while True:
            settled = [each for each in stacks if each.settle()]
            waiting = [each for each in stacks if each not in settled and each.needs_more]
            if self._may_fill(bool(waiting)):
                self._fill_blocks({each: Range(*each.next_block(offsets)) for each in waiting})
                wanted = _BLOCK_BYTES / self._record_bytes / len(waiting)
                offsets = max(1, min(offsets * _BLOCK_GROWTH, int(wanted), _BLOCK_OFFSETS_MAX))
            elif not settled:
                return
            else:
                yield max(settled, key=lambda each: each.turn_ms).take()

    # --- inside --------------------------------------------------------------------------------------------------

    def _lanes_of(self, ranges: Mapping[int, Range]) -> list[Lane]:
        share = DECODED_BYTES_MAX // max(1, len(ranges))
        return [
            Lane(number, each.start, each.end, share, with_markers=self._with_markers)
            for number, each in ranges.items()
        ]

    def _may_fill(self, is_waiting: bool) -> bool:
        """Return whether to fetch now. Notes why not, if something is waited for."""
        if self._is_late():
            return False
        if is_waiting and self.fetched_bytes >= self._limits.bytes_max:
            self.stopped = self.stopped or "bytes"
        return is_waiting and not self.stopped

    def _is_late(self) -> bool:
        if self._clock() >= self._limits.deadline_s:
            self.stopped = "time"
        return self.stopped == "time"

    def _fill_blocks(self, blocks: Mapping[Stack[Looked], Range]) -> None:
        """Read the next block of each stack. One that cannot be read whole ends its stack: its newest are missing."""
        ranges = {each.number: at for each, at in blocks.items()}
        lanes = self._lanes_of(ranges)
        self._seek(lanes)
        items: dict[int, list[tuple[int, int, Looked]]] = {each.number: [] for each in lanes}
        while self.stopped != "time":
            for lane in lanes:
                while lane.settle() and not self._is_late():
                    item = lane.take()
                    items[lane.number].append((item.offset, item.timestamp_ms, self._look(item)))
                    size_bytes = item.size_bytes if isinstance(item, RawRecord) else DECODED_BYTES_MAX
                    self._record_bytes = max(32.0, 0.9 * self._record_bytes + 0.1 * size_bytes, size_bytes / 16)
            waiting = [each for each in lanes if each.needs_more]
            if not self._may_fill(bool(waiting)):
                break
            self._fill(waiting)
        for stack, lane in zip(blocks, lanes, strict=True):
            if lane.position < lane.end:
                stack.is_left_out = True
            else:
                stack.hidden += lane.hidden
                stack.put(items[lane.number], ranges[lane.number].start)

    def _fill(self, waiting: list[Lane]) -> None:
        """Fetch for these lanes. Those that nothing comes for are left out, and a problem says so."""
        by_number = {each.number: each for each in waiting}
        self._fetch_only(by_number)
        left_s = min(SILENT_S, self._limits.deadline_s - self._clock())
        try:
            found = self._consumer.poll_stored(max(1, int(left_s * 1_000)))
        except KraftError as error:
            if not self.fetched_bytes:
                raise
            self._leave_out(waiting, str(error))
            return
        if not found:
            numbers = ", ".join(str(each.number) for each in waiting[:10])
            self._leave_out(waiting, f"nothing came from partition {numbers} within {SILENT_S:g} s")
        for batch in found:
            self.fetched_bytes += batch.size_bytes
            if (lane := by_number.get(batch.partition.partition)) is not None:
                lane.put(batch)

    def _leave_out(self, lanes: Iterable[Lane], problem: str) -> None:
        self.problems.append(problem)
        for each in lanes:
            each.is_left_out = True

    def _places(self, numbers: Iterable[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, each) for each in numbers]

    def _assign(self, numbers: Collection[int]) -> None:
        assigned = self._consumer.assignment()
        if not set(self._places(numbers)) <= set(assigned):
            assigned = self._places(numbers)
            assign_paused(self._consumer, assigned)
        elif assigned:
            self._consumer.pause(*assigned)
        self._is_fetched = dict.fromkeys(numbers, False)

    def _seek(self, lanes: Iterable[Lane]) -> None:
        for each in lanes:
            if each.needs_more:
                self._consumer.seek(TopicPartition(self._topic, each.number), each.position)

    def _fetch_only(self, wanted: Collection[int]) -> None:
        begin = [each for each in wanted if not self._is_fetched[each]]
        end = [each for each, is_fetched in self._is_fetched.items() if is_fetched and each not in wanted]
        if end:
            self._consumer.pause(*self._places(end))
        if begin:
            self._consumer.resume(*self._places(begin))
        self._is_fetched |= dict.fromkeys(begin, True) | dict.fromkeys(end, False)
