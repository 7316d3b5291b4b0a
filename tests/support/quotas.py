"""Requests that change the quotas of clients."""

from __future__ import annotations

from kraft.model.client_quotas import (
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaEntity,
    QuotaOperation,
)

Names = dict[str, str | None]


def entity(names: Names) -> list[QuotaEntity]:
    return [QuotaEntity(entity_type=entity_type, name=name) for entity_type, name in names.items()]


def alteration(names: Names, **values: float | None) -> QuotaAlteration:
    operations = [QuotaOperation(key=key, value=value) for key, value in values.items()]
    return QuotaAlteration(entity=entity(names), operations=operations)


def asked(*alterations: QuotaAlteration, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(alterations=list(alterations), timeout_ms=1, validate_only=validate_only)
