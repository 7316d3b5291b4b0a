"""Groups that rebalance again and again, as their coordinator has seen it in the last minutes."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

from kraft.model.callbacks import NowMs
from kraft.model.groups import MANY_REBALANCES, REBALANCES_WITHIN_MS

COUNTED_MAX: Final = 50
"""Rebalances of one group that are counted; there may be more."""

GROUPS_MAX: Final = 10_000
"""Groups with rebalances lately, of which others are forgotten first."""


class RebalanceCounts:
    """What another coordinator has seen is not counted, and neither is what was longer ago than five minutes."""

    def __init__(self, monotonic_ms: NowMs) -> None:
        self.total = 0
        """Rebalances of all groups here since the process began."""
        self._monotonic_ms = monotonic_ms
        self._told_ms: OrderedDict[str, int] = OrderedDict()
        """When it was last told of a group that it rebalances again and again."""
        self._begun_ms: OrderedDict[str, deque[int]] = OrderedDict()
        """When the latest rebalances of each group began. The group that began one last is at the end."""

    def note(self, group_id: str) -> int:
        """Note that a rebalance began; return how many there were lately."""
        self.total += 1
        begun_ms = self._begun_ms.pop(group_id, None) or deque(maxlen=COUNTED_MAX)
        begun_ms.append(self._monotonic_ms())
        self._begun_ms[group_id] = begun_ms
        if len(self._begun_ms) > GROUPS_MAX:
            self._begun_ms.popitem(last=False)
        return self.lately(group_id)

    def lately(self, group_id: str) -> int:
        """Return how many rebalances of the group began lately."""
        begun_ms = self._begun_ms.get(group_id)
        if begun_ms is None:
            return 0
        after_ms = self._monotonic_ms() - REBALANCES_WITHIN_MS
        while begun_ms and begun_ms[0] <= after_ms:
            begun_ms.popleft()
        if not begun_ms:
            del self._begun_ms[group_id]
        return len(begun_ms)

    def is_to_be_told(self, group_id: str) -> bool:
        """Return whether it was not told of the group lately; it is from now on."""
        now_ms = self._monotonic_ms()
        told_ms = self._told_ms.get(group_id)
        if told_ms is not None and now_ms - told_ms < REBALANCES_WITHIN_MS:
            return False
        self._told_ms[group_id] = now_ms
        self._told_ms.move_to_end(group_id)
        if len(self._told_ms) > GROUPS_MAX:
            self._told_ms.popitem(last=False)
        return True

    @property
    def unsettled(self) -> int:
        """Return the number of groups with many rebalances lately."""
        after_ms, count = self._monotonic_ms() - REBALANCES_WITHIN_MS, 0
        for begun_ms in reversed(self._begun_ms.values()):
            if begun_ms[-1] <= after_ms:
                break
            count += len(begun_ms) >= MANY_REBALANCES and begun_ms[-MANY_REBALANCES] > after_ms
        return count
