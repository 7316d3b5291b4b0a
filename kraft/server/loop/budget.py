"""A limit on the sum of what claimants hold: bytes of memory, or partitions.

A claimant is any hashable object. It has one claim in each budget: `size` is always its total.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from enum import Enum, auto
from typing import Final

from kraft.model.callbacks import Callback


class BeyondBudget(Enum):
    """Rule for claims beyond the budget: larger than what is left of it."""

    NOBODY = auto()
    """They are never granted."""

    ALONE = auto()
    """One is granted to a claimant that is alone, after all others have released theirs. Claims are granted in order of
    arrival.
    """

    FIRST = auto()
    """One is granted at a time, to the first claimant that needs it, even while others hold the whole budget:
    otherwise several may each hold a part of what they need, and none can finish. So at most the budget and one claim
    are held. A claim that fits never waits.
    """


class Budget:
    """A limit on the sum of claims."""

    def __init__(self, size_max: int, beyond: BeyondBudget = BeyondBudget.NOBODY) -> None:
        self.size_max: Final = size_max
        self._beyond: Final = beyond
        self._held: dict[Hashable, int] = {}
        self._first: Hashable | None = None
        """The claimant that may go beyond the budget."""

        self._waiting: dict[Hashable, tuple[int, Callback]] = {}
        """Waiting claims in order of arrival."""

        self.held = 0
        self.held_most = 0
        """Largest `held` since this was last set to 0."""

    @property
    def left(self) -> int:
        """Size that is left; below 0 while a claim beyond the budget is held."""
        return self.size_max - self.held

    @property
    def claimant_count(self) -> int:
        return len(self._held)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def is_waiting(self, claimant: Hashable) -> bool:
        return claimant in self._waiting

    def has_room(self, size: int) -> bool:
        """Return whether a new claimant would be granted this size."""
        return self._may_hold(None, size)

    def claim(self, claimant: Hashable, size: int, granted: Callback | None = None) -> bool:
        """Set the claimant's total to `size`. Return False if that is not possible now.

        With `granted` the claim then waits, and is held when `granted` is called. To stop waiting the claimant releases
        its claim: the budget has no clock.
        """
        is_in_order = self._beyond is BeyondBudget.FIRST or not self._waiting or size <= self._held.get(claimant, 0)
        if is_in_order and self._may_hold(claimant, size):
            self._waiting.pop(claimant, None)
            self._grant(claimant, size)
            # It may have claimed less than it held.
            self._grant_waiting()
            return True
        if granted is not None:
            self._waiting[claimant] = size, granted
        return False

    async def wait(self, claimant: Hashable, size: int, deadline_s: float) -> bool:
        """Claim for a claimant that holds nothing, and wait until `deadline_s` by the loop's clock."""
        granted = asyncio.Event()
        if self.claim(claimant, size, granted.set):
            return True
        is_granted = False
        try:
            async with asyncio.timeout_at(deadline_s):
                is_granted = await granted.wait()
        except TimeoutError:
            pass
        finally:
            if not is_granted:
                self.release(claimant)
        return is_granted

    def hold(self, claimant: Hashable, size: int) -> None:
        """Set the claimant's total to what it already uses, which cannot be refused, and end its waiting claim."""
        self._forget(claimant)
        self._set(claimant, size)
        self._grant_waiting()

    def release(self, claimant: Hashable) -> None:
        """Release the claimant's total and end its waiting claim."""
        self._forget(claimant)
        self._grant_waiting()

    def _may_hold(self, claimant: Hashable | None, size: int) -> bool:
        if self._fits(claimant, size):
            return True
        match self._beyond:
            case BeyondBudget.NOBODY:
                return False
            case BeyondBudget.ALONE:
                return len(self._held) == (claimant in self._held)
            case BeyondBudget.FIRST:
                return self._first is None or self._first == claimant

    def _fits(self, claimant: Hashable | None, size: int) -> bool:
        return size - self._held.get(claimant, 0) <= max(self.left, 0)

    def _grant(self, claimant: Hashable, size: int) -> None:
        if not self._fits(claimant, size):
            self._first = claimant
        self._set(claimant, size)

    def _set(self, claimant: Hashable, size: int) -> None:
        self.held += size - self._held.get(claimant, 0)
        self._held[claimant] = size
        self.held_most = max(self.held_most, self.held)

    def _forget(self, claimant: Hashable) -> None:
        self._waiting.pop(claimant, None)
        self.held -= self._held.pop(claimant, 0)
        if self._first == claimant:
            self._first = None

    def _grant_waiting(self) -> None:
        calls = []
        while (claimant := self._next()) is not None:
            size, granted = self._waiting.pop(claimant)
            self._grant(claimant, size)
            calls.append(granted)
        for granted in calls:
            granted()

    def _next(self) -> Hashable | None:
        for claimant, (size, _) in self._waiting.items():
            if self._may_hold(claimant, size):
                return claimant
            if self._beyond is not BeyondBudget.FIRST:
                # No claim overtakes a waiting one, or a large claim might wait forever.
                break
        return None
