"""A snapshot of a node's values, which the node's event loop takes in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import perf_counter
from typing import Final

from kraft.server.metrics.metric import Metric

TURN_S_MAX: Final = 0.001
"""Longest part of a snapshot that is taken without a turn for others."""


class Series:
    """The series of one metric: for each the values of its labels, and a number.

    Two lists, not one of pairs: the garbage collector would look at each of 200,000 pairs, in a single call.
    """

    __slots__ = ("labels", "numbers")

    def __init__(self) -> None:
        self.labels: list[tuple[str, ...]] = []
        self.numbers: list[float] = []

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, labels: tuple[str, ...], number: float) -> None:
        self.labels.append(labels)
        self.numbers.append(number)

    def reverse(self) -> None:
        self.labels.reverse()
        self.numbers.reverse()

    def pop(self) -> tuple[tuple[str, ...], float]:
        """Remove the last one, and return it."""
        return self.labels.pop(), self.numbers.pop()


Values = dict[Metric, Series]
"""The series of each metric. Of a summary, the count and then the sum; of a histogram, its buckets before these."""


class Snapshot:
    """Values as they are collected: some at a time, so that no turn of the loop is long."""

    def __init__(self, turn_ended: Callable[[float], None] | None = None) -> None:
        """`turn_ended` is called with the length of each turn, in seconds."""
        self.values: Values = {}
        self._turn_ended = turn_ended
        self._turn_began_s = perf_counter()

    def add(self, metric: Metric, value: float, *labels: str) -> None:
        self.add_labelled(metric, value, labels)

    def add_labelled(self, metric: Metric, value: float, labels: tuple[str, ...]) -> None:
        """Add a series whose labels others have, too."""
        series = self.values.get(metric)
        if series is None:
            series = self.values[metric] = Series()
        series.add(labels, value)

    def add_summary(self, metric: Metric, count: int, total: float, *labels: str) -> None:
        self.add_labelled(metric, count, labels)
        self.add_labelled(metric, total, labels)

    def add_histogram(self, metric: Metric, counts: Sequence[int], total: float, *labels: str) -> None:
        """`counts` has the number of events within each bound and not within the one before, then of those above."""
        within = 0
        for bound, count in zip(metric.bounds, counts, strict=False):
            within += count
            self.add_labelled(metric, within, (*labels, str(bound)))
        self.add_labelled(metric, sum(counts), (*labels, "+Inf"))
        self.add_summary(metric, sum(counts), total, *labels)

    @property
    def has_to_rest(self) -> bool:
        """True once the turn has been long enough: `await rest()` then."""
        return perf_counter() - self._turn_began_s > TURN_S_MAX

    async def rest(self) -> None:
        """Give others a turn."""
        if self._turn_ended is not None:
            self._turn_ended(perf_counter() - self._turn_began_s)
        await asyncio.sleep(0)
        self._turn_began_s = perf_counter()


Collect = Callable[[Snapshot], Awaitable[None]]
"""Adds the values of some metrics, on the node's event loop."""


async def take(collecting: Iterable[Collect], turn_ended: Callable[[float], None] | None = None) -> Values:
    """Return the values; `turn_ended` is called with the length of each turn, in seconds."""
    snapshot = Snapshot(turn_ended)
    for collect in collecting:
        await collect(snapshot)
        await snapshot.rest()
    return snapshot.values
