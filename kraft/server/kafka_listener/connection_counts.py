"""How many connections a node's Kafka listeners have: in all, of clients that have not logged in, and by address.

Pure: the listener reports what happens, and closes what may not stay. Strangers have places of their own, so that they
take none of clients that are logged in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

STRANGERS_MAX: Final = 1_000
"""A login takes some milliseconds, so this is enough for tens of thousands of clients that reconnect at once."""

STRANGERS_PART: Final = 4
"""Strangers have at most this part of all places, and one address at most this part of theirs."""


class ConnectionCountLimits(Struct, frozen=True, kw_only=True):
    clients_max: int
    """`max.connections`, or fewer if there are not as many files."""

    strangers_max: int = 0
    """0 where no listener asks for a login."""

    address_max: int
    """`max.connections.per.ip`"""

    address_overrides: Mapping[str, int] = {}
    """`max.connections.per.ip.overrides`, by address."""


def count_limits(
    files: int, connections_max: int, address_max: int, overrides: Mapping[str, int], *, asks_for_login: bool
) -> ConnectionCountLimits:
    """Return the limits where all connections may take this many files."""
    strangers = min(STRANGERS_MAX, max(1, files // STRANGERS_PART)) if asks_for_login else 0
    return ConnectionCountLimits(
        clients_max=min(connections_max, max(1, files - strangers)),
        strangers_max=strangers,
        address_max=address_max,
        address_overrides=overrides,
    )


class ConnectionCounts:
    def __init__(self, limits: ConnectionCountLimits) -> None:
        self._limits = limits
        self._address_strangers_max = max(1, limits.strangers_max // STRANGERS_PART)
        self._by_address: dict[str, int] = {}
        self._strangers_by_address: dict[str, int] = {}
        self.clients = 0
        self.strangers = 0

    @property
    def has_too_many_strangers(self) -> bool:
        """True if the stranger that came first has to go."""
        return self.strangers > self._limits.strangers_max

    def objection(self, address: str, *, is_stranger: bool) -> str | None:
        """Return why there must be no further connection of this address; None if there may be one."""
        limits = self._limits
        address_max = limits.address_overrides.get(address, limits.address_max)
        if self._by_address.get(address, 0) >= address_max:
            return too_many_of_address(address, address_max)
        if not is_stranger:
            return self._client_objection()
        if self._strangers_by_address.get(address, 0) >= self._address_strangers_max:
            return f"{self._address_strangers_max} connections of {address} have not logged in yet"
        return None

    def opened(self, address: str, *, is_stranger: bool) -> None:
        _add(self._by_address, address, 1)
        if is_stranger:
            self.strangers += 1
            _add(self._strangers_by_address, address, 1)
        else:
            self.clients += 1

    def logged_in(self, address: str) -> str | None:
        """Count a stranger as a client. Return why there are too many of these; None if there are not."""
        objection = self._client_objection()
        self.strangers -= 1
        _add(self._strangers_by_address, address, -1)
        self.clients += 1
        return objection

    def closed(self, address: str, *, is_stranger: bool) -> None:
        _add(self._by_address, address, -1)
        if is_stranger:
            self.strangers -= 1
            _add(self._strangers_by_address, address, -1)
        else:
            self.clients -= 1

    def _client_objection(self) -> str | None:
        if self.clients >= self._limits.clients_max:
            return "too many connections: raise max.connections or the limit of open files"
        return None


def too_many_of_address(address: str, address_max: int) -> str:
    return f"too many connections of {address}: raise max.connections.per.ip, which allows {address_max}"


def _add(counts: dict[str, int], address: str, difference: int) -> None:
    counts[address] = counts.get(address, 0) + difference
    if not counts[address]:
        del counts[address]
