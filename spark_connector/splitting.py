"""Splits ranges into more tasks: `maxRecordsPerPartition` and `minPartitions`, by the rules of Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from spark_connector.ranges import OffsetRange


def split(ranges: Sequence[OffsetRange], tasks_min: int | None, records_max: int | None) -> list[OffsetRange]:
    """Return ranges of at most `records_max` offsets, and about `tasks_min` of them.

    Large ranges are split into equal parts, in proportion to their sizes. Each part has at least one offset, so a few
    records make fewer tasks.
    """
    if records_max is not None:
        ranges = [part for each in ranges for part in _parts(each, -(-each.size // records_max))]
    if tasks_min is None or len(ranges) >= tasks_min:
        return list(ranges)
    total = sum(each.size for each in ranges)
    # Ranges that stay whole are left out of the proportion, so that the others get the tasks that remain.
    large = [each for each in ranges if _share(each, total, tasks_min) > 1]
    total_large = sum(each.size for each in large)
    tasks_large = max(1, tasks_min - (len(ranges) - len(large)))
    counts = {id(each): _share(each, total_large, tasks_large) for each in large}
    return [part for each in ranges for part in _parts(each, counts.get(id(each), 1))]


def _share(each: OffsetRange, total: int, tasks: int) -> int:
    # Half is rounded up, as by Java.
    return max(1, int(Fraction(each.size * tasks, total) + Fraction(1, 2)))


def _parts(each: OffsetRange, count: int) -> list[OffsetRange]:
    count = min(count, each.size)
    cuts = [each.start + each.size * part // count for part in range(count + 1)]
    return [replace(each, start=start, end=end) for start, end in pairwise(cuts)]
