"""Requests that change the quotas of clients."""

from __future__ import annotations

from kraft.metadata.records import QuotaEntity
from kraft.metadata.settings import QuotaSubject
from kraft.wire.schema.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

Names = dict[str, str | None]


def alteration(names: Names, **values: float | None) -> EntryData:
    return EntryData(
        entity=tuple(EntityData(entity_type=entity_type, entity_name=name) for entity_type, name in names.items()),
        ops=tuple(OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()),
    )


def asked(*alterations: EntryData, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=alterations, validate_only=validate_only)


def subject(names: Names) -> QuotaSubject:
    """Return the entity as the metadata has it."""
    return tuple(QuotaEntity(entity_type=entity_type, name=names[entity_type]) for entity_type in sorted(names))
