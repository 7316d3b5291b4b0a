"""What operators ask about brokers, and want done to them, as values."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kraft.model.endpoint import Endpoint
from kraft.model.features import FeatureRange


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    """A broker as it last registered, and what it holds now.

    `leaders` counts the partitions that it leads, `replicas` those of which it has one, `in_sync` those of which its
    replica is in the in-sync set. `log_directory_ids` are those that it registered with.
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
    """No ids: every registered broker."""

    broker_ids: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeBrokersResponse:
    """By id."""

    brokers: list[BrokerDescription]


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokerRequest:
    """`force`: also where partitions are left without a leader."""

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
    """`changed` is False when it was so already. `leaderless`: partitions that the action left without a leader."""

    changed: bool
    leaderless: list[str]
