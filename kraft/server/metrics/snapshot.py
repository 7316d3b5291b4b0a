"""A snapshot of a node's values, which the node's event loop takes in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from time import perf_counter
from typing import Final

from kraft.server.metrics.metric import Metric

TURN_S_MAX: Final = 0.001
"""Longest part of a snapshot that is taken without a turn for others."""

Values = dict[Metric, list[tuple[tuple[str, ...], float]]]
"""For each metric its series: the values of its labels, and the number. Of a summary, the count and then the sum."""


class Snapshot:
    """Values as they are collected: some at a time, so that no turn of the loop is long."""

    def __init__(self) -> None:
        self.values: Values = {}
        self._turn_began_s = perf_counter()

    def add(self, metric: Metric, value: float, *labels: str) -> None:
        self.values.setdefault(metric, []).append((labels, value))

    def add_summary(self, metric: Metric, count: int, total: float, *labels: str) -> None:
        self.values.setdefault(metric, []).extend(((labels, count), (labels, total)))

    @property
    def has_to_rest(self) -> bool:
        """True once the turn has been long enough: `await rest()` then."""
        return perf_counter() - self._turn_began_s > TURN_S_MAX

    async def rest(self) -> None:
        """Give others a turn."""
        await asyncio.sleep(0)
        self._turn_began_s = perf_counter()


Collect = Callable[[Snapshot], Awaitable[None]]
"""Adds the values of some metrics, on the node's event loop."""


async def take(collecting: Iterable[Collect]) -> Values:
    snapshot = Snapshot()
    for collect in collecting:
        await collect(snapshot)
        await snapshot.rest()
    return snapshot.values
