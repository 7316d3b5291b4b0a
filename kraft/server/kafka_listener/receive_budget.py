"""How much memory all connections together may fill with requests that have not arrived whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

SMALL_BYTES_MAX: Final = 64 * 1024
"""Requests up to this size have a budget of their own, so that they do not wait for large ones to arrive."""


SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of the one buffer that is kept for the next request: to make a new one is to clear as many bytes."""


class Claimant(Protocol):
    """A connection that receives a request in parts. Compared by identity."""


class ReceiveBudget:
    """Bytes lent to claimants. Who does not get them stops reading, and is called when it may ask again.

    One claimant at a time has the right of way: it gets what it asks for though nothing is left. Otherwise many
    requests, each partly there, could wait for each other for ever. So what is lent never exceeds the budget and one
    request together.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._left = bytes_max
        self.bytes_most = 0
        """Of what was lent at one time, since somebody last set this to 0."""

        self._lent: dict[Claimant, int] = {}
        self._first: Claimant | None = None
        self._waiting: deque[tuple[Claimant, Callable[[], None]]] = deque()

    @property
    def lent_bytes(self) -> int:
        return sum(self._lent.values())

    @property
    def is_used_up(self) -> bool:
        return self._left <= 0

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiting)

    def keep(self, claimant: Claimant, size_bytes: int) -> None:
        """Lends what has arrived already, and so cannot be refused, in place of all that the claimant had."""
        self.give_back(claimant)
        self._left -= size_bytes
        self._lent[claimant] = size_bytes
        self._note()

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
        self._note()
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

    def _note(self) -> None:
        self.bytes_most = max(self.bytes_most, self._bytes_max - self._left)


class ReceiveMemory:
    """The budgets of one listener: half of `socket.request.max.bytes`, beside the request with the right of way.

    That one is there twice for a moment, when it has become too large for its memory. So all requests that are partly
    there take less than twice the size that one may have.
    """

    def __init__(self, request_bytes_max: int) -> None:
        self._spare: bytearray | None = None
        self.small = ReceiveBudget(request_bytes_max // 8)
        self.large = ReceiveBudget(request_bytes_max * 3 // 8)

    def buffer(self, size_bytes: int) -> memoryview:
        """Of that size, with anything in it. Large requests mostly come one after the other: then it is the same."""
        spare, self._spare = self._spare, None
        if spare is None or len(spare) < size_bytes:
            spare = bytearray(size_bytes)
        return memoryview(spare)[:size_bytes]

    def reuse(self, buffer: memoryview) -> None:
        """Nobody looks into it any more."""
        made = buffer.obj
        if isinstance(made, bytearray) and SMALL_BYTES_MAX < len(made) <= SPARE_BYTES_MAX:
            self._spare = made

    def budget(self, size_bytes: int) -> ReceiveBudget:
        """For a request of that size."""
        return self.small if size_bytes <= SMALL_BYTES_MAX else self.large

    @property
    def is_used_up(self) -> bool:
        return self.small.is_used_up or self.large.is_used_up

    @property
    def lent_bytes(self) -> int:
        return self.small.lent_bytes + self.large.lent_bytes

    def most_lent_bytes(self) -> int:
        """At one time, since this was last asked for."""
        most = self.small.bytes_most + self.large.bytes_most
        self.small.bytes_most = self.large.bytes_most = 0
        return most
