"""Which names a list of patterns takes."""

from __future__ import annotations

import pytest

from kraft.mirror.patterns import Chosen, InvalidPattern, patterns


@pytest.mark.parametrize(
    ("text", "taken", "left_out"),
    [
        ("*", ["orders", "a.b"], []),
        ("orders", ["orders"], ["orders-2", "my-orders"]),
        ("orders-.*, payments", ["orders-1", "payments"], ["orders", "payments2"]),
        ("a|b", ["a", "b"], ["ab"]),
        ("*-eu|*-us", ["x-eu", "x-us"], ["x-asia"]),
        ("", [], ["orders"]),
    ],
)
def test_a_list_takes_whole_names(text: str, taken: list[str], left_out: list[str]) -> None:
    chosen = Chosen(taken=patterns(text))
    assert all(map(chosen.has, taken))
    assert not any(map(chosen.has, left_out))


def test_what_is_left_out_wins() -> None:
    chosen = Chosen(taken=patterns("*"), left_out=patterns("__.*,.*-tmp"))
    assert [each for each in ("orders", "__offsets", "x-tmp") if chosen.has(each)] == ["orders"]


def test_what_is_no_pattern_is_named() -> None:
    with pytest.raises(InvalidPattern, match=r"'\(' is no regular expression"):
        patterns("orders,(")


def chosen(taken: str, left_out: str = "") -> Chosen:
    return Chosen(taken=patterns(taken), left_out=patterns(left_out))


@pytest.mark.parametrize(
    ("one", "other", "is_apart"),
    [
        ("orders, payments", "users", True),
        ("orders", "orders", False),
        ("eu-.*", "us-.*", True),
        ("eu-.*", "e.*", False),
        ("orders.eu", "orders.us", True),
        ("orders.eu", "orders\\.eu", False),
        ("orders", "orders-.*", True),
        ("orders.?", "orders", False),
        ("orders*", "order", False),
        ("a|b", "c", False),
        ("*", "orders", False),
        ("", "*", True),
    ],
)
def test_lists_are_apart_only_if_no_name_can_be_in_both(one: str, other: str, is_apart: bool) -> None:
    assert chosen(one).is_apart(chosen(other)) is is_apart
    assert chosen(other).is_apart(chosen(one)) is is_apart


def test_what_the_other_list_leaves_out_is_not_in_both() -> None:
    assert chosen("us-.*").is_apart(chosen("*", "us-.*"))
    assert not chosen("us-.*").is_apart(chosen("*", "us-a"))
