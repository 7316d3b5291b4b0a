"""How much memory all connections together may fill with requests that have not arrived whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol


class Claimant(Protocol):
    """A connection that receives a request in parts. Compared by identity."""


class ReceiveBudget:
    """Bytes lent to claimants. Who does not get them stops reading, and is called when it may ask again.

    One claimant at a time has the right of way: it gets what it asks for though nothing is left. Otherwise many
    requests, each partly there, could wait for each other for ever. So what is lent never exceeds the budget and one
    request together.
    """

    def __init__(self, bytes_max: int) -> None:
        self._left = bytes_max
        self._lent: dict[Claimant, int] = {}
        self._first: Claimant | None = None
        self._waiting: deque[tuple[Claimant, Callable[[], None]]] = deque()

    @property
    def lent_bytes(self) -> int:
        return sum(self._lent.values())

    @property
    def is_used_up(self) -> bool:
        return self._left <= 0

    def keep(self, claimant: Claimant, size_bytes: int) -> None:
        """Lends what has arrived already, and so cannot be refused, in place of all that the claimant had."""
        self.give_back(claimant)
        self._left -= size_bytes
        self._lent[claimant] = size_bytes

    def grow_to(self, claimant: Claimant, size_bytes: int, ask_again: Callable[[], None]) -> bool:
        """Lends so much in all to the claimant. False: not now, `ask_again` is called as soon as there is a chance."""
        more = size_bytes - self._lent.get(claimant, 0)
        if more > self._left and self._first is None:
            self._first = claimant
        if more > self._left and self._first is not claimant:
            self._waiting.append((claimant, ask_again))
            return False
        self._left -= more
        self._lent[claimant] = size_bytes
        return True

    def give_back(self, claimant: Claimant) -> None:
        """All that the claimant had; what it was waiting for is no longer wanted."""
        self._left += self._lent.pop(claimant, 0)
        if self._first is claimant:
            self._first = None
        # Everybody is asked once: who still gets nothing waits again, behind the others.
        waiting, self._waiting = self._waiting, deque()
        for other, ask_again in waiting:
            if other is not claimant:
                ask_again()
