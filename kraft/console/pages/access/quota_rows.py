"""Quotas as rows of tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from kraft.access.quota_values import ENTITY_TYPES, entity_in_words, in_words
from kraft.console.asking import CLIENT_MS

if TYPE_CHECKING:
    from kraft.client import Admin
    from kraft.wire.schema.describe_client_quotas import EntryData


class Quota(Struct, frozen=True, kw_only=True):
    key: str
    value: float
    words: str


class QuotaRow(Struct, frozen=True, kw_only=True):
    """The quotas of one entity."""

    entity: dict[str, str | None]
    """Names by type; None is the default of the type."""

    words: str
    quotas: list[Quota]

    @property
    def query(self) -> dict[str, str]:
        """Return the fields that name the entity in addresses and forms."""
        return fields_of(self.entity)


def fields_of(entity: Mapping[str, str | None]) -> dict[str, str]:
    return {
        **{each: name for each, name in entity.items() if name is not None},
        **{f"{each}-default": "yes" for each, name in entity.items() if name is None},
    }


def quotas_of(admin: Admin, entity: Mapping[str, str | None] | None = None, *, strict: bool = False) -> list[QuotaRow]:
    """Return the quotas of entities with these parts; of all without. Raises the cluster's Refusal."""
    found = admin.describe_client_quotas(entity, strict=strict, timeout_ms=CLIENT_MS)
    return [_row(each) for each in found]


def _row(entry: EntryData) -> QuotaRow:
    names = {each.entity_type: each.entity_name for each in entry.entity}
    entity = {each: names[each] for each in (*ENTITY_TYPES, *names) if each in names}
    return QuotaRow(
        entity=entity,
        words=entity_in_words(list(entity.items())),
        quotas=[Quota(key=each.key, value=each.value, words=in_words(each.key, each.value)) for each in entry.values],
    )
