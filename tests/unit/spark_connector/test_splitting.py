from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kraft.client import TopicPartition
from spark_connector.ranges import OffsetRange
from spark_connector.splitting import split


def ranges_of(*sizes: int) -> list[OffsetRange]:
    return [
        OffsetRange(partition=TopicPartition("a", number), start=100, end=100 + size)
        for number, size in enumerate(sizes)
    ]


def parts(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [(each.partition.partition, each.start, each.end) for each in ranges]


def test_small_ranges_stay_whole() -> None:
    assert parts(split(ranges_of(1, 90), 3, None)) == [(0, 100, 101), (1, 100, 145), (1, 145, 190)]


@given(st.lists(st.integers(1, 10_000), max_size=12), st.none() | st.integers(1, 60), st.none() | st.integers(100, 900))
def test_the_parts_are_the_ranges(sizes: list[int], tasks_min: int | None, records_max: int | None) -> None:
    wanted = ranges_of(*sizes)
    found = split(wanted, tasks_min, records_max)
    assert all(each.size > 0 and (records_max is None or each.size <= records_max) for each in found)
    for whole in wanted:
        own = [each for each in found if each.partition == whole.partition]
        assert [own[0].start, own[-1].end] == [whole.start, whole.end]
        assert all(before.end == after.start for before, after in pairwise(own))
    if tasks_min is not None and sizes:
        assert len(found) >= min(tasks_min // 2, sum(sizes))
