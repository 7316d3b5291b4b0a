"""Which quota holds for a client: the most specific entry, in Kafka's order.

The order is that of the Quotas section of Kafka's documentation; each key has an order of its own, so an entry without
a value for a key hides nothing. Source: KIP-55, and KIP-612 for addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

from kraft.metadata.quota_decisions import CLIENT_ID, CONNECTION_CREATION_RATE, IP, USER
from kraft.metadata.settings import QuotaSubject


class Client(NamedTuple):
    """The parts of a client for which there are quotas."""

    user: str
    """The name of its principal."""

    client_id: str
    """Empty if it gives none: then no quota for client ids holds for it, not even the default, as in Kafka."""


class QuotaInEffect(NamedTuple):
    limit: float
    subject: QuotaSubject
    """The entry that says so."""

    counted: Client
    """What is counted together: the parts of the client that the entry has, an empty name for the other."""


_Place = tuple[str | None, str | None]
"""User and client id of an entry; None if it has no such part, an empty name for the default of the type."""

_DEFAULT: Final = ""

_REMEMBERED_MAX: Final = 10_000
"""Clients whose quotas are remembered, for each key."""


class QuotasInEffect:
    """The entries of one state of the metadata, found by client."""

    def __init__(self, entries: Mapping[QuotaSubject, Mapping[str, float]]) -> None:
        self._entries: dict[str, dict[_Place, tuple[float, QuotaSubject]]] = {}
        self._addresses: dict[str, tuple[float, QuotaSubject]] = {}
        self._found: dict[tuple[str, Client], QuotaInEffect | None] = {}
        for subject, quotas in entries.items():
            names = {part.entity_type: part.name or _DEFAULT for part in subject}
            if IP in names:
                if CONNECTION_CREATION_RATE in quotas:
                    self._addresses[_written(names[IP])] = quotas[CONNECTION_CREATION_RATE], subject
                continue
            place = names.get(USER), names.get(CLIENT_ID)
            for key, limit in quotas.items():
                self._entries.setdefault(key, {})[place] = limit, subject

    @property
    def keys(self) -> frozenset[str]:
        """The keys for which any client has a quota."""
        return frozenset(self._entries)

    @property
    def has_addresses(self) -> bool:
        return bool(self._addresses)

    def hold_for(self, client: Client) -> bool:
        """Return whether any of them holds for the client."""
        return any(self.of(key, client) is not None for key in self._entries)

    def of(self, key: str, client: Client) -> QuotaInEffect | None:
        """Return the quota that holds for the client; None if there is none."""
        if key not in self._entries:
            return None
        try:
            return self._found[key, client]
        except KeyError:
            pass
        if len(self._found) >= _REMEMBERED_MAX:
            self._found.clear()
        found = self._found[key, client] = self._first(key, client)
        return found

    def of_address(self, address: str) -> tuple[float, QuotaSubject] | None:
        """Return how many connections the address may open in a second, and the entry that says so."""
        return self._addresses.get(address) or self._addresses.get(_DEFAULT)

    def _first(self, key: str, client: Client) -> QuotaInEffect | None:
        entries = self._entries[key]
        for user, client_id in _in_order(client):
            found = entries.get((user, client_id))
            if found is not None:
                counted = Client("" if user is None else client.user, "" if client_id is None else client.client_id)
                return QuotaInEffect(*found, counted)
        return None


def _in_order(client: Client) -> list[_Place]:
    user, client_id = client
    places: list[_Place] = [
        (user, client_id),
        (user, _DEFAULT),
        (user, None),
        (_DEFAULT, client_id),
        (_DEFAULT, _DEFAULT),
        (_DEFAULT, None),
        (None, client_id),
        (None, _DEFAULT),
    ]
    return places if client_id else [place for place in places if place[1] is None]


def _written(address: str) -> str:
    """Return the address as connections name it, which write each in one way only."""
    return str(ip_address(address)) if address else _DEFAULT
