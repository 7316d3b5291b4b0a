from __future__ import annotations

import pytest

from kraft.model.groups import MANY_REBALANCES, REBALANCES_WITHIN_MS
from kraft.server.coordinator import rebalance_counts
from kraft.server.coordinator.rebalance_counts import COUNTED_MAX, RebalanceCounts


class Clock:
    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def test_rebalances_count_for_five_minutes() -> None:
    clock = Clock()
    counts = RebalanceCounts(clock)
    assert [counts.note("billing"), counts.note("billing"), counts.note("other")] == [1, 2, 1]
    clock.now_ms += REBALANCES_WITHIN_MS - 1
    assert counts.note("billing") == 3
    clock.now_ms += 1
    assert [counts.lately(each) for each in ("billing", "other", "unknown")] == [1, 0, 0]
    assert counts.total == 4


def test_a_group_is_unsettled_while_many_began_lately() -> None:
    clock = Clock()
    counts = RebalanceCounts(clock)
    for _ in range(MANY_REBALANCES - 1):
        counts.note("billing")
    counts.note("calm")
    assert counts.unsettled == 0
    clock.now_ms += 1
    counts.note("billing")
    assert counts.unsettled == 1
    # The first ones are too long ago, and nobody has asked for the group.
    clock.now_ms += REBALANCES_WITHIN_MS - 1
    assert counts.unsettled == 0


def test_it_is_told_once_in_five_minutes() -> None:
    clock = Clock()
    counts = RebalanceCounts(clock)
    assert [counts.is_to_be_told(each) for each in ("billing", "billing", "other")] == [True, False, True]
    clock.now_ms += REBALANCES_WITHIN_MS
    assert counts.is_to_be_told("billing")


def test_neither_groups_nor_their_rebalances_take_memory_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance_counts, "GROUPS_MAX", 2)
    counts = RebalanceCounts(Clock())
    for _ in range(COUNTED_MAX + 5):
        assert counts.note("billing") <= COUNTED_MAX
    for each in ("a", "b"):
        counts.note(each)
        counts.is_to_be_told(each)
    counts.is_to_be_told("c")
    assert [counts.lately(each) for each in ("billing", "a", "b")] == [0, 1, 1]
    assert counts.is_to_be_told("a")
