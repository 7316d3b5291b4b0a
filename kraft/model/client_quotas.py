"""Requests that alter and describe client quotas, and their responses. Source: KIP-546, KIP-599, KIP-612."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct


class QuotaEntity(Struct, frozen=True, kw_only=True):
    """Part of the entity of a quota: a user, a client-id or an ip.

    `name` None is the default, for all that have no quota of their own.
    """

    entity_type: str
    name: str | None


class QuotaOperation(Struct, frozen=True, kw_only=True):
    """Quota to set; `value` None removes it."""

    key: str
    value: float | None


class QuotaAlteration(Struct, frozen=True, kw_only=True):
    """Operations on the quotas of one entity."""

    entity: list[QuotaEntity]
    operations: list[QuotaOperation]


class AlterClientQuotasRequest(Struct, frozen=True, kw_only=True):
    """Request to make all of these alterations, or none."""

    alterations: list[QuotaAlteration]
    timeout_ms: int
    validate_only: bool = False


class AlterClientQuotasResponse(Struct, frozen=True, kw_only=True):
    """Response of AlterClientQuotas. `changed` counts the quotas whose value changed, or would with `validate_only`."""

    changed: int


class QuotaMatch(IntEnum):
    """Way in which a filter selects entities of a type. The numbers are Kafka's."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaFilter(Struct, frozen=True, kw_only=True):
    """Filter for entities of a type; `name` is set for EXACT only."""

    entity_type: str
    match: QuotaMatch
    name: str | None = None


class DescribeClientQuotasRequest(Struct, frozen=True, kw_only=True):
    """Request for the quotas of entities that match every filter; with `strict`, only those without further parts.

    Without filters, the quotas of all entities.
    """

    filters: list[QuotaFilter]
    strict: bool = False


class QuotaValue(Struct, frozen=True, kw_only=True):
    key: str
    value: float


class QuotaDescription(Struct, frozen=True, kw_only=True):
    """Quotas of one entity, by key."""

    entity: list[QuotaEntity]
    quotas: list[QuotaValue]


class DescribeClientQuotasResponse(Struct, frozen=True, kw_only=True):
    quotas: list[QuotaDescription]
