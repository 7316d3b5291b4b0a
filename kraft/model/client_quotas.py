"""Quotas of clients, as values: set, taken away and described. Source: KIP-546, KIP-599, KIP-612."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity:
    """One part of whom a quota is for: a user, a client-id or an ip.

    `name` None stands for whoever has no quota of its own.
    """

    entity_type: str
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOperation:
    """`value` None takes the quota away."""

    key: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAlteration:
    """Of one entity: all of it is done, or nothing."""

    entity: list[QuotaEntity]
    operations: list[QuotaOperation]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequest:
    """All of the alterations, or none."""

    alterations: list[QuotaAlteration]
    timeout_ms: int
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponse:
    """`changed`: how many quotas have another value now, or would have."""

    changed: int


class QuotaMatch(IntEnum):
    """Which entities of a type are described. The numbers are Kafka's."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFilter:
    """`name` is for EXACT only."""

    entity_type: str
    match: QuotaMatch
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasRequest:
    """Entities that match every filter; with `strict` only those that have no part beside. No filter: all of them."""

    filters: list[QuotaFilter]
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaValue:
    key: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDescription:
    """The quotas of one entity, by key."""

    entity: list[QuotaEntity]
    quotas: list[QuotaValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponse:
    quotas: list[QuotaDescription]
