"""Names at the target, and cycles that names can show."""

from __future__ import annotations

import pytest

from kraft.mirror.naming import Naming, cycle_in, is_positions_topic

ALIASES = frozenset({"A", "B", "C"})


def test_names_stand_behind_the_alias_of_the_source_or_stay() -> None:
    assert Naming(source="A", target="B", prefixed=True).at_target("orders") == "A.orders"
    assert Naming(source="A", target="B", prefixed=True, separator="_").at_target("orders") == "A_orders"
    assert Naming(source="A", target="B", prefixed=False).at_target("orders") == "orders"


@pytest.mark.parametrize(
    ("topic", "came"),
    [("orders", False), ("B.orders", True), ("C.orders", False), ("C.B.orders", True), ("X.B.orders", False)],
)
def test_a_topic_of_the_target_does_not_go_back(topic: str, came: bool) -> None:
    assert Naming(source="A", target="B", prefixed=True).came_from_target(topic, ALIASES) is came


def test_an_alias_with_the_separator_in_it_is_found_in_a_name() -> None:
    naming = Naming(source="dc-1", target="dc-2", prefixed=True, separator="-")
    assert naming.came_from_target("dc-2-orders", frozenset({"dc-1", "dc-2"}))
    assert not naming.came_from_target("dc-1-orders", frozenset({"dc-1", "dc-2"}))


def test_a_topic_of_a_user_may_end_as_those_of_positions_do() -> None:
    assert is_positions_topic("kraft-mirror.A-B.positions")
    assert not is_positions_topic("gps.positions")


def test_cycles_are_found() -> None:
    assert cycle_in([("A", "B"), ("C", "B")]) == []
    assert cycle_in([("A", "B"), ("B", "A")]) == ["A", "B", "A"]
    assert cycle_in([("X", "A"), ("A", "B"), ("B", "C"), ("C", "A")]) == ["A", "B", "C", "A"]


def test_pairs_without_a_common_topic_make_no_cycle() -> None:
    pairs = [("A", "B"), ("B", "A"), ("B", "C"), ("C", "A")]
    assert cycle_in(pairs, lambda one, other: {one, other} == {("A", "B"), ("B", "A")}) == ["A", "B", "C", "A"]
    assert cycle_in(pairs, lambda one, other: ("A", "B") in (one, other)) == []
