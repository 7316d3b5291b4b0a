"""A bound on what claimants hold together: bytes of memory, or partitions.

A claimant is any object that is hashable. It has one claim in each budget: `size` is always what it holds in all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from enum import Enum, auto
from typing import Final


class Beyond(Enum):
    """Whether a claim that is larger than what is left may be granted, and to whom."""

    NOBODY = auto()
    """It is never granted."""

    ALONE = auto()
    """To a claimant that is alone: when everybody else has released what they hold. Claims are granted in the order in
    which they came.
    """

    FIRST = auto()
    """To one claimant at a time, the first that needs it, though others hold all there is: they may hold the beginnings
    of what none of them can finish. So at most the budget and one claim are held. A claim that fits never waits.
    """


class Budget:
    def __init__(self, size_max: int, beyond: Beyond = Beyond.NOBODY) -> None:
        self.size_max: Final = size_max
        self._beyond: Final = beyond
        self._held: dict[Hashable, int] = {}
        self._first: Hashable | None = None
        """The claimant that may go beyond the budget."""

        self._waiting: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        """In the order in which they came."""

        self.held = 0
        self.held_most = 0
        """At one time, since somebody last set this to 0."""

    @property
    def left(self) -> int:
        """Below 0 while somebody is beyond the budget."""
        return self.size_max - self.held

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def is_waiting(self, claimant: Hashable) -> bool:
        return claimant in self._waiting

    def has_room(self, size: int) -> bool:
        """Whether somebody who holds nothing would be granted so much."""
        return self._may_hold(None, size)

    def claim(self, claimant: Hashable, size: int, granted: Callable[[], None] | None = None) -> bool:
        """Makes `size` what the claimant holds in all.

        False: not now. With `granted` it then waits, and holds what it claimed when that is called. Who has waited long
        enough releases its claim: the budget has no clock.
        """
        is_in_order = self._beyond is Beyond.FIRST or not self._waiting or size <= self._held.get(claimant, 0)
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
        """As `claim`, for one that holds nothing, and waits until `deadline_s` by the loop's clock."""
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
        """Counts what is there already and so cannot be refused, in place of all that the claimant held or wanted."""
        self._forget(claimant)
        self._set(claimant, size)
        self._grant_waiting()

    def release(self, claimant: Hashable) -> None:
        """All that the claimant holds; what it waits for is no longer wanted."""
        self._forget(claimant)
        self._grant_waiting()

    def _may_hold(self, claimant: Hashable | None, size: int) -> bool:
        if self._fits(claimant, size):
            return True
        match self._beyond:
            case Beyond.NOBODY:
                return False
            case Beyond.ALONE:
                return len(self._held) == (claimant in self._held)
            case Beyond.FIRST:
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
            if self._beyond is not Beyond.FIRST:
                # Nobody overtakes one that waits, or a large claim might wait for ever.
                break
        return None
