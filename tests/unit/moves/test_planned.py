from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.model.ids import TopicPartition
from kraft.moves.planned import (
    MOVES_MAX,
    PlannedMove,
    WrongPlan,
    bytes_to_copy,
    moves_in,
    named_partitions,
    out_of_service,
    planned,
    stale,
    text_of,
)

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)

brokers = st.lists(st.integers(0, 2**31 - 1).filter(lambda each: each < 10**9), min_size=1, max_size=5, unique=True)


def move(partition: TopicPartition, now: tuple[int, ...], then: tuple[int, ...]) -> PlannedMove:
    return PlannedMove(partition=partition, now=now, then=then)


def test_a_plan_has_only_what_changes_and_says_what_is_added_and_removed() -> None:
    moves = planned({ORDERS_0: [1, 2], ORDERS_1: [2, 3]}, {ORDERS_0: [1, 2], ORDERS_1: [3, 4]})
    assert moves == [move(ORDERS_1, (2, 3), (3, 4))]
    assert (moves[0].added, moves[0].removed) == ([4], [2])
    assert bytes_to_copy(moves, {ORDERS_1: 700}) == 700
    assert bytes_to_copy([move(ORDERS_0, (1, 2), (2, 1))], {ORDERS_0: 700}) == 0


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True), st.integers(0, 9_999), brokers, brokers)
def test_a_plan_is_read_as_it_was_written(topic: str, partition: int, now: list[int], then: list[int]) -> None:
    moves = [move(TopicPartition(topic, partition), tuple(now), tuple(then))]
    assert moves_in(text_of(moves)) == moves


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the plan is empty"),
        ("orders", "line 1 of the plan, 'orders': write TOPIC-PARTITION"),
        ("orders-0: 1 -> 2\n\nx\u202e-0: 1 ->", r"line 3 of the plan, 'x\\\\u202e-0: 1 ->'"),
        ("orders-0: 1 -> 2\norders-0: 1 -> 3", "line 2 of the plan: orders-0 is there twice"),
        ("orders-0: 1 -> 2,2", "line 1 of the plan: a broker holds one replica of orders-0"),
        ("orders-99999999999: 1 -> 2", "line 1"),
    ],
)
def test_what_is_no_plan_is_a_sentence_with_the_line(text: str, problem: str) -> None:
    with pytest.raises(WrongPlan, match=problem):
        moves_in(text)


def test_a_plan_is_bounded() -> None:
    text = "\n".join(f"orders-{number}: 1 -> 2" for number in range(MOVES_MAX + 1))
    with pytest.raises(WrongPlan, match="more than 1,000 partitions"):
        moves_in(text)


def test_what_has_changed_since_is_said() -> None:
    moves = [move(ORDERS_0, (1, 2), (2, 3)), move(ORDERS_1, (1, 2), (2, 3))]
    assert stale(moves, {ORDERS_0: [1, 2], ORDERS_1: [1, 2]}) == []
    assert stale(moves, {ORDERS_0: [2, 1]}) == [
        "orders-0 has its replicas on 2,1, not on 1,2",
        "orders-1 does not exist any more",
    ]


def test_brokers_that_cannot_take_replicas_are_said() -> None:
    moves = [move(ORDERS_0, (1, 2), (2, 3)), move(ORDERS_1, (1, 2), (2, 9))]
    assert out_of_service(moves, {1: False, 2: True, 3: False}) == [
        "broker 3 is not in service: start it, or let others have its replicas",
        "there is no broker 9",
    ]


def test_partitions_are_named_in_any_order_and_unknown_ones_are_left_out() -> None:
    assert named_partitions("orders-1, orders-0\norders-7", [ORDERS_0, ORDERS_1]) == [ORDERS_0, ORDERS_1]
