from __future__ import annotations

import pytest

from kraft.client.model.offset_reset import (
    NewOffset,
    OffsetsBeforeReset,
    ResetFailed,
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToListed,
    ToOffset,
    ToTime,
    plan,
)
from kraft.model.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)


def place(
    committed: int | None = 50, at_time: int | None = None, partition: TopicPartition = ORDERS
) -> OffsetsBeforeReset:
    return OffsetsBeforeReset(partition=partition, committed=committed, log_start=10, log_end=100, at_time=at_time)


def planned(target: Target, where: OffsetsBeforeReset) -> tuple[int, str]:
    (new,) = plan(target, [where])
    assert (new.partition, new.committed) == (where.partition, where.committed)
    return new.offset, new.note


@pytest.mark.parametrize(
    ("target", "offset"),
    [
        (ToEarliest(), 10),
        (ToLatest(), 100),
        (ToCurrent(), 50),
        (ToOffset(10), 10),
        (ToOffset(100), 100),
        (ShiftBy(-40), 10),
        (ShiftBy(0), 50),
        (ShiftBy(50), 100),
        (ToListed({ORDERS: 77}), 77),
    ],
)
def test_a_target_gives_an_offset(target: Target, offset: int) -> None:
    assert planned(target, place()) == (offset, "")


@pytest.mark.parametrize(
    ("target", "offset", "note"),
    [
        (ToOffset(101), 100, "101 is above the log; using the log end offset"),
        (ToOffset(9), 10, "9 is below the log; using the log start offset"),
        (ToOffset(-1), 10, "-1 is below the log; using the log start offset"),
        (ShiftBy(51), 100, "101 is above the log; using the log end offset"),
        (ShiftBy(-51), 10, "-1 is below the log; using the log start offset"),
        (ToListed({ORDERS: 1_000}), 100, "1000 is above the log; using the log end offset"),
    ],
)
def test_an_offset_outside_of_the_log_becomes_the_nearest_one(target: Target, offset: int, note: str) -> None:
    assert planned(target, place()) == (offset, note)


def test_the_current_offset_stays_even_outside_of_the_log() -> None:
    assert planned(ToCurrent(), place(committed=5)) == (5, "")


def test_without_a_committed_offset_current_is_the_log_end() -> None:
    assert planned(ToCurrent(), place(committed=None)) == (100, "no offset is committed; using the log end offset")


def test_without_a_committed_offset_nothing_is_shifted() -> None:
    with pytest.raises(ResetFailed, match="orders-0: no offset is committed"):
        plan(ShiftBy(1), [place(committed=None)])


def test_a_time_is_its_first_record_or_the_log_end() -> None:
    assert planned(ToTime(1_000), place(at_time=33)) == (33, "")
    assert planned(ToTime(1_000), place()) == (100, "no record at or after that time; using the log end offset")


def test_a_committed_offset_of_zero_is_one() -> None:
    empty = OffsetsBeforeReset(partition=ORDERS, committed=0, log_start=0, log_end=0, at_time=0)
    for target in (ToCurrent(), ShiftBy(0), ToTime(1), ToEarliest()):
        assert planned(target, empty) == (0, "")


def test_partitions_are_sorted_by_topic_and_number() -> None:
    sorted_ones = [TopicPartition("a", 11), TopicPartition("orders", 9), TopicPartition("orders", 10)]
    assert plan(ToLatest(), [place(partition=each) for each in reversed(sorted_ones)]) == [
        NewOffset(partition=each, committed=50, offset=100) for each in sorted_ones
    ]
