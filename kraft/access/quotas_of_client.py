"""Which quotas hold for one client: of all entries the most specific one of each kind, as brokers choose it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from kraft.access.quota_values import KEYS
from kraft.metadata.quota_decisions import CONNECTION_CREATION_RATE
from kraft.metadata.records import QuotaEntity
from kraft.quotas.precedence import Client, QuotasInEffect


class Holding(Struct, frozen=True, kw_only=True):
    """A kind of quota, and what holds for the client."""

    key: str
    value: float | None
    """None: there is no limit."""

    entity: Mapping[str, str | None]
    """Whose quota it is: names by type, None is the default of the type."""


def holding(
    entries: Iterable[tuple[Mapping[str, str | None], Mapping[str, float]]], user: str, client_id: str, address: str
) -> list[Holding]:
    """Return each kind of quota with the one that holds. Of an address that is empty, none is known."""
    in_effect = QuotasInEffect(
        {tuple(QuotaEntity(entity_type=kind, name=name) for kind, name in of.items()): quotas for of, quotas in entries}
    )
    found = []
    for key in KEYS:
        if key == CONNECTION_CREATION_RATE:
            held = in_effect.of_address(address) if address else None
        else:
            of_client = in_effect.of(key, Client(user, client_id))
            held = None if of_client is None else (of_client.limit, of_client.subject)
        value, subject = (None, ()) if held is None else held
        found.append(Holding(key=key, value=value, entity={each.entity_type: each.name for each in subject}))
    return found
