"""Batch reader that reads less when the query filters by topic, partition, offset or timestamp.

Spark asks a reader to take filters if `spark.sql.python.filterPushdown.enabled` is true, and fails if a reader could
take some when it is false. So the source returns this reader only in the process where Spark asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from kraft.client import TopicPartition
from spark_connector.batch import KraftBatchReader
from spark_connector.ranges import OffsetRange

if TYPE_CHECKING:
    from spark_connector.cluster import Cluster

_OF_THE_PARTITION: Final = ("topic", "partition")
_NEVER_NULL: Final = (*_OF_THE_PARTITION, "offset")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class FilteringBatchReader(KraftBatchReader):
    _taken: tuple[Filter, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters that say what not to read; return those that Spark has to apply to what was read."""
        self._taken = tuple(each for each in filters if _narrows(each))
        return [each for each in filters if not _is_exact(each)]

    def _narrowed(self, cluster: Cluster, planned: Sequence[OffsetRange]) -> list[OffsetRange]:
        kept = [each for each in planned if all(_admits(taken, each.partition) for taken in self._taken)]
        kept = [_within(each, self._taken) for each in kept]
        return _not_older(cluster, [each for each in kept if each.size > 0], self._taken)


def _column(given: Filter) -> str:
    """Return the name of the column that the filter is about; empty for a part of a column."""
    attribute: tuple[str, ...] = getattr(given.child if isinstance(given, Not) else given, "attribute", ())
    return attribute[0].lower() if len(attribute) == 1 else ""


def _narrows(given: Filter) -> bool:
    match _column(given), given:
        case _, IsNotNull():
            return False
        case (("topic" | "partition"), _):
            return _is_comparison(given)
        case "offset", _:
            return _offsets(given) is not None
        case "timestamp", _:
            return _earliest_ms(given) is not None
        case _:
            return False


def _is_exact(given: Filter) -> bool:
    """Return whether nothing is left for Spark to check."""
    match _column(given), given:
        case column, IsNotNull():
            return column in _NEVER_NULL
        case (("topic" | "partition"), _):
            return _is_comparison(given)
        case "offset", _:
            return _offsets(given) is not None and not isinstance(given, In)
        case _:
            return False


# --- topic and partition -----------------------------------------------------------------------------------------


def _is_comparison(given: Filter) -> bool:
    """Return whether `_holds` knows the filter. A comparison with null holds for nothing, and neither does its Not."""
    match given:
        case Not(child):
            return _is_comparison(child) and not (isinstance(child, In) and None in child.value)
        case (
            EqualTo(_, value)
            | EqualNullSafe(_, value)
            | GreaterThan(_, value)
            | GreaterThanOrEqual(_, value)
            | LessThan(_, value)
            | LessThanOrEqual(_, value)
            | StringStartsWith(_, value)
            | StringEndsWith(_, value)
            | StringContains(_, value)
        ):
            return value is not None
        case _:
            return isinstance(given, In)


def _admits(taken: Filter, partition: TopicPartition) -> bool:
    match _column(taken):
        case "topic":
            return _holds(taken, partition.topic)
        case "partition":
            return _holds(taken, partition.partition)
        case _:
            return True


def _holds(given: Filter, value: Any) -> bool:
    match given:
        case Not(child):
            return not _holds(child, value)
        case EqualTo(_, other) | EqualNullSafe(_, other):
            return bool(value == other)
        case In(_, others):
            return value in others
        case GreaterThan(_, other):
            return bool(value > other)
        case GreaterThanOrEqual(_, other):
            return bool(value >= other)
        case LessThan(_, other):
            return bool(value < other)
        case LessThanOrEqual(_, other):
            return bool(value <= other)
        case StringStartsWith(_, other):
            return bool(value.startswith(other))
        case StringEndsWith(_, other):
            return bool(value.endswith(other))
        case StringContains(_, other):
            return other in value
        case _:
            raise AssertionError(f"{given} is no comparison")


# --- offset ------------------------------------------------------------------------------------------------------


def _offsets(given: Filter) -> tuple[int | None, int | None] | None:
    """Return the first offset that can match, and the one after the last; None in their place is no bound."""
    match given:
        case EqualTo(_, int(value)) | EqualNullSafe(_, int(value)):
            return value, value + 1
        case GreaterThan(_, int(value)):
            return value + 1, None
        case GreaterThanOrEqual(_, int(value)):
            return value, None
        case LessThan(_, int(value)):
            return None, value
        case LessThanOrEqual(_, int(value)):
            return None, value + 1
        case In(_, values) if values and all(isinstance(value, int) for value in values):
            return min(values), max(values) + 1
        case _:
            return None


def _within(planned: OffsetRange, taken: Iterable[Filter]) -> OffsetRange:
    start, end = planned.start, planned.end
    for each in taken:
        bounds = _offsets(each) if _column(each) == "offset" else None
        if bounds is not None:
            start = start if bounds[0] is None else max(start, bounds[0])
            end = end if bounds[1] is None else min(end, bounds[1])
    return replace(planned, start=start, end=max(start, end))


# --- timestamp ---------------------------------------------------------------------------------------------------


def _earliest_ms(given: Filter) -> int | None:
    """Return the earliest timestamp that can match. There is no latest one: producers' times need not ascend."""
    match given:
        case EqualTo(_, datetime() as value) | EqualNullSafe(_, datetime() as value):
            past_us = 0
        case GreaterThanOrEqual(_, datetime() as value):
            past_us = 0
        case GreaterThan(_, datetime() as value):
            past_us = 1
        case _:
            return None
    if value.tzinfo is None:
        return None
    wanted_us = (value - _EPOCH) // timedelta(microseconds=1) + past_us
    # Records have milliseconds; the first one that is not before is wanted.
    return -(-wanted_us // 1_000)


def _not_older(cluster: Cluster, planned: list[OffsetRange], taken: Iterable[Filter]) -> list[OffsetRange]:
    """Leave out the records before the first one that is late enough: every one of them is older."""
    times_ms = [time for each in taken if _column(each) == "timestamp" and (time := _earliest_ms(each)) is not None]
    # Brokers give another meaning to negative timestamps.
    if not planned or max(times_ms, default=0) <= 0:
        return planned
    found = cluster.offsets_at({each.partition: max(times_ms) for each in planned})
    late: list[OffsetRange] = []
    for each in planned:
        first = found[each.partition]
        if first is not None and first < each.end:
            late.append(replace(each, start=max(each.start, first)))
    return late
