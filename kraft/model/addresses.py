"""Clients' addresses, and what waits for its turn by the address that it came from."""

from __future__ import annotations

from collections import deque
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

T = TypeVar("T")


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine. Names other than localhost are not resolved: they may change."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def counted_address(host: str) -> str:
    """Return the address by which limits count a host.

    A network of IPv6 with a prefix of 64 bits counts as one address, as it is what one household or machine gets. An
    IPv4 address is the same on every socket.
    """
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return host if address.is_loopback else f"{IPv6Address(int(address) >> 64 << 64)}/64"


def address_of(name: object) -> str:
    """Return the address of a socket's name, as limits count it."""
    match name:
        case (str(host), int(_), *_):
            return counted_address(host)
        case _:
            return "?"


def address_of_peer(peer: str) -> str:
    """Return the same of a name as messages have it: `10.0.0.7:51000`, `[::1]:51000`."""
    return counted_address(peer.rpartition(":")[0].strip("[]"))


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


def peer_of(name: object) -> str:
    """Format the other end for messages: `10.0.0.7:51000`, `[::1]:51000`."""
    match name:
        case (str(host), int(port), *_):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        case _:
            return "?"
