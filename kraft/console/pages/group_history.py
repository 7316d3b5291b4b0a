"""Lag and offsets of a group over time, since somebody looked: a chart, a table, and JSON."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kraft.console.asking import Asked, Panel
from kraft.console.pages.group import described_group
from kraft.health.group_history import SAMPLE_S, Series, TopicSeries

TABLE_MAX: Final = 60
"""Times that the table has, the last ones."""


class Point(Struct, frozen=True, kw_only=True):
    at_ms: int
    topic: str
    committed: int | None
    end: int | None
    lag: int | None


class History(Struct, frozen=True, kw_only=True):
    group: str
    series: Panel[Series]
    problem: str
    """Why there was no sample the last time; empty if there was."""

    every_s: float
    table: list[Point]
    """The last points, latest first."""

    @property
    def status(self) -> int:
        return self.series.status


async def group_history(asked: Asked) -> History:
    name = asked.path["group"]
    # Whoever may not describe the group, or not any more, sees no history of it either.
    described = await asked.panel(lambda: described_group(asked, name))
    if described.value is None:
        missing: Panel[Series] = Panel(problem=described.problem, code=described.code)
        return History(group=name, series=missing, problem="", every_s=SAMPLE_S, table=[])
    watched = asked.state.sampling.look(asked, name)
    series = watched.history.series()
    return History(
        group=name, series=Panel(value=series), problem=watched.problem, every_s=SAMPLE_S, table=points_of(series)
    )


def points_of(series: Series) -> list[Point]:
    """Return the last points of all topics, latest first."""
    found = []
    for index in range(len(series.times_ms) - 1, max(-1, len(series.times_ms) - 1 - TABLE_MAX), -1):
        found += [_point(series.times_ms[index], topic, index) for topic in series.topics]
    return found


def _point(at_ms: int, topic: TopicSeries, index: int) -> Point:
    return Point(
        at_ms=at_ms,
        topic=topic.topic,
        committed=topic.committed[index],
        end=topic.end[index],
        lag=topic.lag[index],
    )
