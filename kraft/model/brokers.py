"""Requests of operators about brokers, and their responses: describe, fence, unfence, unregister."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kraft.model.endpoint import Endpoint
from kraft.model.features import FeatureRange


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    """Description of a broker: its last registration, and its replicas now.

    `leaders` counts the partitions that it leads, `replicas` those of which it has a replica, and `in_sync` those of
    which its replica is in the ISR. `log_directory_ids` are those of its registration.
    """

    broker_id: int
    broker_epoch: int
    addresses: list[Endpoint]
    rack: str
    fenced: bool
    fenced_by_operator: bool
    in_controlled_shutdown: bool
    leaders: int
    replicas: int
    in_sync: int
    log_directory_ids: list[UUID]
    features: list[FeatureRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeBrokersRequest:
    """Request to describe these brokers; without ids, every registered broker."""

    broker_ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeBrokersResponse:
    """Descriptions of brokers, by id."""

    brokers: list[BrokerDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokerRequest:
    """Request for an operator fence. `force`: even if partitions are left without a leader."""

    broker_id: int
    timeout_ms: int
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBrokerRequest:
    broker_id: int
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest:
    broker_id: int
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerActionResult:
    """Result of an action. `changed` is False if there was nothing to do; `leaderless` partitions lost their leader."""

    changed: bool
    leaderless: list[str]
