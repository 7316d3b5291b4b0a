"""Requests that alter and describe client quotas, and their responses. Source: KIP-546, KIP-599, KIP-612."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity:
    """Part of the entity of a quota: a user, a client-id or an ip.

    `name` None is the default, for all that have no quota of their own.
    """

    entity_type: str
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOperation:
    """Quota to set; `value` None removes it."""

    key: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAlteration:
    """Operations on the quotas of one entity."""

    entity: list[QuotaEntity]
    operations: list[QuotaOperation]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequest:
    """Request to make all of these alterations, or none."""

    alterations: list[QuotaAlteration]
    timeout_ms: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponse:
    """Response of AlterClientQuotas. `changed` counts the quotas whose value changed, or would with `validate_only`."""

    changed: int


class QuotaMatch(IntEnum):
    """Way in which a filter selects entities of a type. The numbers are Kafka's."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFilter:
    """Filter for entities of a type; `name` is set for EXACT only."""

    entity_type: str
    match: QuotaMatch
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasRequest:
    """Request for the quotas of entities that match every filter; with `strict`, only those without further parts.

    Without filters, the quotas of all entities.
    """

    filters: list[QuotaFilter]
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaValue:
    key: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDescription:
    """Quotas of one entity, by key."""

    entity: list[QuotaEntity]
    quotas: list[QuotaValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponse:
    quotas: list[QuotaDescription]
