"""Figures that the demo compares: flights and departure delays by airline and month."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from kraft.cli.demo import flights


class DelayCell(NamedTuple):
    """One cell of the table."""

    carrier: str
    month: int


class Delays(Struct, frozen=True, kw_only=True):
    """Figures of one group of flights. Cancelled flights are counted, but have no delay.

    `distinct_flights` is below `flights` if a flight was counted twice.
    """

    flights: int
    distinct_flights: int
    departed: int
    delay_total_min: int
    delay_average_min: float | None


Table = Mapping[DelayCell, Delays]

NOTHING = Delays(flights=0, distinct_flights=0, departed=0, delay_total_min=0, delay_average_min=None)


class Difference(Struct, frozen=True, kw_only=True):
    """A group whose expected and counted figures differ."""

    group: DelayCell
    expected: Delays
    counted: Delays


def from_file(flights_max: int | None = None) -> dict[DelayCell, Delays]:
    """Return the figures computed from the file alone, without broker, JSON or Spark."""
    delays_min: defaultdict[DelayCell, list[int]] = defaultdict(list)
    cancelled: defaultdict[DelayCell, int] = defaultdict(int)
    for carrier, month, delay_min in flights.columns(("carrier", "month", "dep_delay"), flights_max):
        group = DelayCell(carrier, int(month))
        if delay_min == flights.NOT_AVAILABLE:
            cancelled[group] += 1
        else:
            delays_min[group].append(int(delay_min))
    return {
        group: _delays(len(delays_min[group]) + cancelled[group], delays_min[group])
        for group in sorted(delays_min.keys() | cancelled.keys())
    }


def _delays(count: int, delays_min: list[int]) -> Delays:
    return Delays(
        flights=count,
        distinct_flights=count,
        departed=len(delays_min),
        delay_total_min=sum(delays_min),
        delay_average_min=sum(delays_min) / len(delays_min) if delays_min else None,
    )


def compare(expected: Table, counted: Table) -> list[Difference]:
    """Return the groups that differ.

    Averages are compared exactly: both sides divide the same two whole numbers, and round as IEEE 754 does.
    """
    return [
        Difference(group=group, expected=expected.get(group, NOTHING), counted=counted.get(group, NOTHING))
        for group in sorted(expected.keys() | counted.keys())
        if expected.get(group) != counted.get(group)
    ]


def duplicates(counted: Table) -> int:
    """Return the number of superfluous counts of flights."""
    return sum(delays.flights - delays.distinct_flights for delays in counted.values())


def lost(expected: Table, counted: Table) -> int:
    """Return the number of flights of the file that were not counted."""
    return sum(
        max(0, delays.flights - counted.get(group, NOTHING).distinct_flights) for group, delays in expected.items()
    )


def total(delays: Iterable[Delays]) -> Delays:
    """Return the figures of several groups as one."""
    parts = list(delays)
    departed = sum(part.departed for part in parts)
    delay_total_min = sum(part.delay_total_min for part in parts)
    return Delays(
        flights=sum(part.flights for part in parts),
        distinct_flights=sum(part.distinct_flights for part in parts),
        departed=departed,
        delay_total_min=delay_total_min,
        delay_average_min=delay_total_min / departed if departed else None,
    )


def of_carrier(table: Table, carrier: str) -> dict[DelayCell, Delays]:
    return {group: delays for group, delays in table.items() if group.carrier == carrier}
