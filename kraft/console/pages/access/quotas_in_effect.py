"""Which quotas hold for one client: of all entries, the most specific one for each kind of quota."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kraft.access.quota_values import KEYS, entity_in_words, in_words
from kraft.access.quotas_of_client import holding
from kraft.console.asking import Asked, Panel
from kraft.console.pages.access.quota_rows import QuotaRow, fields_of, quotas_of


class HoldingQuota(Struct, frozen=True, kw_only=True):
    """A kind of quota, and what holds for the client."""

    key: str
    help: str
    value: float | None
    """None: there is no limit."""

    words: str
    entity: str
    """Whose quota it is, in words."""

    query: dict[str, str]
    """The fields that name the entity in addresses and forms."""


class QuotasOfClient(Struct, frozen=True, kw_only=True):
    client: str
    """In words; empty if none is named yet."""

    quotas: Panel[list[HoldingQuota]]

    @property
    def status(self) -> int:
        return self.quotas.status


async def quotas_of_client(asked: Asked) -> QuotasOfClient:
    user, client_id, address = (asked.form.text(each) for each in ("user", "client-id", "ip"))
    user = user.removeprefix("User:")
    named = [("user", user), ("client-id", client_id), ("ip", address)]
    words = entity_in_words([(kind, name) for kind, name in named if name])
    if not words:
        return QuotasOfClient(client="", quotas=Panel(value=[]))
    found = await asked.panel(lambda: rows_of(quotas_of(asked.admin), user, client_id, address))
    return QuotasOfClient(client=words, quotas=found)


def rows_of(rows: Sequence[QuotaRow], user: str, client_id: str, address: str) -> list[HoldingQuota]:
    entries = [(row.entity, {each.key: each.value for each in row.quotas}) for row in rows]
    return [
        HoldingQuota(
            key=each.key,
            help=KEYS[each.key],
            value=each.value,
            words="no limit" if each.value is None else in_words(each.key, each.value),
            entity=entity_in_words(list(each.entity.items())),
            query=fields_of(each.entity),
        )
        for each in holding(entries, user, client_id, address)
    ]
