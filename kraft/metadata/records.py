"""The facts that the metadata log holds, in the order in which they became true.

Every record carries new values, never differences, so that replaying one needs no more than the image before it. The
fields are plain (numbers, text, ids, lists and nested dataclasses) because the log's codec maps them by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kraft.model.ids import BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, ProducerId, TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where one listener of a broker is reached, as the broker advertises it."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInitialised:
    """The first record of a cluster; it is never written a second time."""

    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker's process became known under a new epoch. It starts fenced, whatever it was before."""

    broker_id: BrokerId
    incarnation_id: UUID
    broker_epoch: BrokerEpoch
    endpoints: list[Endpoint]
    rack: str
    directory_ids: list[DirectoryId]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced:
    """The broker leads nothing from here on, until it is unfenced."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnfenced:
    """The broker may lead, join an ISR and take new replicas."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerShuttingDown:
    """The broker asked for a controlled shutdown; only a new registration takes that back."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    topic: str
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCreated:
    """Partitions of a topic are created in order, from 0 on. The first of `replicas` is the preferred leader."""

    topic_id: TopicId
    partition: int
    replicas: list[BrokerId]
    isr: list[BrokerId]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanged:
    """The partition's new state in full. `leader` is NO_BROKER while nobody in the ISR can lead."""

    topic_id: TopicId
    partition: int
    isr: list[BrokerId]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigSet:
    """`value` None takes the key back to the broker's default."""

    topic_id: TopicId
    key: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsAllocated:
    """Every producer id below `next_producer_id` is given away."""

    next_producer_id: ProducerId


BrokerRecord = RegisterBroker | BrokerFenced | BrokerUnfenced | BrokerShuttingDown
TopicRecord = TopicCreated | PartitionCreated | PartitionChanged | TopicDeleted | TopicConfigSet
MetadataRecord = ClusterInitialised | ProducerIdsAllocated | BrokerRecord | TopicRecord
