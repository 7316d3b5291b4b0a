"""Metadata: the brokers of the cluster, and the leaders of partitions."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct, field

from kraft.model.errors import ErrorCode


class MetadataRequest(Struct, frozen=True, kw_only=True):
    """Request for the metadata of `topics`; with `all_topics`, of every topic."""

    topics: list[str]
    all_topics: bool = False
    allow_auto_topic_creation: bool = False


class BrokerEndpoint(Struct, frozen=True, kw_only=True):
    """Address of a broker for clients of the listener that was asked."""

    broker_id: int
    host: str
    port: int
    rack: str = ""


class PartitionMetadata(Struct, frozen=True, kw_only=True):
    """Metadata of a partition. `leader_id` is -1 while the partition has no leader.

    `elr`, the eligible leader replicas, are not in sync but hold every committed record; `last_known_elr` once did, and
    may no longer (KIP-966).
    """

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    elr: list[int] = field(default_factory=list)
    last_known_elr: list[int] = field(default_factory=list)


class TopicMetadata(Struct, frozen=True, kw_only=True):
    error_code: ErrorCode
    error_message: str = ""
    topic: str
    topic_id: UUID
    partitions: list[PartitionMetadata]


class MetadataResponse(Struct, frozen=True, kw_only=True):
    """Metadata of the cluster. `controller_id` is the active controller that this broker knows, -1 for none."""

    cluster_id: str
    controller_id: int
    brokers: list[BrokerEndpoint]
    topics: list[TopicMetadata]
