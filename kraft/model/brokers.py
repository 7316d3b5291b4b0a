"""Requests of operators about brokers, and their responses: describe, fence, unfence. Kafka has none of these."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from kraft.model.endpoint import Endpoint
from kraft.model.features import FeatureRange


class BrokerDescription(Struct, frozen=True, kw_only=True):
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


class DescribeBrokersRequest(Struct, frozen=True, kw_only=True):
    """Request to describe these brokers; without ids, every registered broker."""

    broker_ids: list[int]


class DescribeBrokersResponse(Struct, frozen=True, kw_only=True):
    """Descriptions of brokers, by id."""

    brokers: list[BrokerDescription]


class FenceBrokerRequest(Struct, frozen=True, kw_only=True):
    """Request for an operator fence. `force`: even if partitions are left without a leader."""

    broker_id: int
    timeout_ms: int
    force: bool = False


class UnfenceBrokerRequest(Struct, frozen=True, kw_only=True):
    broker_id: int
    timeout_ms: int


class BrokerActionResult(Struct, frozen=True, kw_only=True):
    """Result of an action. `changed` is False if there was nothing to do; `leaderless` partitions lost their leader."""

    changed: bool
    leaderless: list[str]
