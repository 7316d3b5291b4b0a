"""Clients' addresses, and what waits for its turn by the address that it came from."""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

_MAPPED: Final = "::ffff:"
"""Begins an IPv4 address where a socket of IPv6 accepts both."""

T = TypeVar("T")


def address_of(name: object) -> str:
    """Return the host of a socket's name, without the port."""
    match name:
        case (str(host), int(_), *_):
            return host.removeprefix(_MAPPED)
        case _:
            return "?"


class AddressTurns(Generic[T]):
    """A queue in which addresses take turns, so that one with much to do delays the others by one turn each."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}
        """None of them is empty; the address whose turn is next is the first, unless it had the last one."""
        self._last = ""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, waiting: T) -> bool:
        return any(waiting in each for each in self._waiting.values())

    def append(self, address: str, waiting: T) -> None:
        self._waiting.setdefault(address, deque()).append(waiting)

    def popleft(self) -> T:
        """Return what is next. Raises StopIteration if nothing waits."""
        if (rest := self._waiting.pop(self._last, None)) is not None:
            # Behind all that came while it had its turn.
            self._waiting[self._last] = rest
        self._last = address = next(iter(self._waiting))
        waiting = self._waiting[address]
        taken = waiting.popleft()
        if not waiting:
            del self._waiting[address]
        return taken

    def take_all(self) -> list[T]:
        """Return everything, and wait for nothing more."""
        found = [each for waiting in self._waiting.values() for each in waiting]
        self._waiting.clear()
        return found
