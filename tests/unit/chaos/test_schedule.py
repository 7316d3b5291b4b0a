from __future__ import annotations

from collections import Counter

from chaos.nemesis.schedule import schedule
from chaos.run import FAULTS

HOLD, REST = (1.0, 6.0), (0.0, 2.0)


def test_a_seed_decides_everything() -> None:
    assert schedule(7, FAULTS, 40, HOLD, REST) == schedule(7, FAULTS, 40, HOLD, REST)
    assert schedule(7, FAULTS, 40, HOLD, REST) != schedule(8, FAULTS, 40, HOLD, REST)


def test_every_fault_comes_before_any_returns() -> None:
    planned = schedule(7, FAULTS, 3 * len(FAULTS), HOLD, REST)
    rounds = [planned[start : start + len(FAULTS)] for start in range(0, len(planned), len(FAULTS))]
    assert [{each.fault for each in one} for one in rounds] == [set(FAULTS)] * 3


def test_there_are_as_many_as_were_asked_for() -> None:
    assert Counter(each.fault for each in schedule(7, ["cut"], 5, HOLD, REST)) == {"cut": 5}


def test_without_any_fault_there_is_nothing_to_plan() -> None:
    assert schedule(7, [], 5, HOLD, REST) == []


def test_times_are_within_their_bounds() -> None:
    for each in schedule(7, FAULTS, 100, HOLD, REST):
        assert HOLD[0] <= each.hold_s <= HOLD[1]
        assert REST[0] <= each.rest_s <= REST[1]
