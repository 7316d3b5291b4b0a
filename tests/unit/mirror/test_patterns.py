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
