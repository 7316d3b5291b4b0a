from __future__ import annotations

from kraft.moves.skew import is_skewed, skew, skews


def test_skew_is_in_percent_of_the_mean() -> None:
    assert skews({1: 30, 2: 10, 3: 20}) == {1: 50, 2: -50, 3: 0}
    assert skew([30, 10, 20]) == 50
    assert skews({1: 0, 2: 0}) == {1: 0, 2: 0}
    assert skew([]) == 0


def test_a_broker_is_skewed_above_its_share_rounded_up() -> None:
    assert not is_skewed(4, 10, 3)
    assert is_skewed(5, 10, 3)
    assert not is_skewed(0, 0, 0)
