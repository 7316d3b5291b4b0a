"""The records of the metadata log.

Every record carries new values, never differences, so that replaying one needs only the image before it. The fields are
plain (numbers, text, ids, lists and nested dataclasses) because the log's codec maps them by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from kraft.model.client_quotas import QuotaEntity
from kraft.model.endpoint import Endpoint
from kraft.model.features import FeatureRange
from kraft.model.ids import BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, ProducerId, TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInitialised:
    """The first record of a cluster; it is written only once."""

    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker's process registered under a new epoch. The broker is fenced, even if it was not before.

    `features` is empty for a broker of a version that did not send them.
    """

    broker_id: BrokerId
    incarnation_id: UUID
    broker_epoch: BrokerEpoch
    endpoints: list[Endpoint]
    rack: str
    directory_ids: list[DirectoryId]
    features: list[FeatureRange] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced:
    """The broker leads nothing until it is unfenced."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnfenced:
    """The broker may lead, join an ISR and get new replicas."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerShuttingDown:
    """The broker asked for a controlled shutdown; only a new registration ends that state."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFenceSet:
    """An operator set or removed the broker's operator fence, which persists over registrations."""

    broker_id: BrokerId
    fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnregistered:
    """The broker was removed from the metadata, until it registers again."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEpochsUsed:
    """Every broker epoch below `next_broker_epoch` is used; in snapshots only, since the last broker may be gone."""

    next_broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    topic: str
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCreated:
    """A partition was created; a topic's partitions come in order from 0. `replicas[0]` is the preferred leader.

    Only a snapshot sets `adding_replicas` and `removing_replicas` (subsets of `replicas`, for a reassignment under
    way), and `elr` and `last_known_elr`.
    """

    topic_id: TopicId
    partition: int
    replicas: list[BrokerId]
    isr: list[BrokerId]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    adding_replicas: list[BrokerId] = field(default_factory=list)
    removing_replicas: list[BrokerId] = field(default_factory=list)
    elr: list[BrokerId] = field(default_factory=list)
    last_known_elr: list[BrokerId] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanged:
    """The complete new state of a partition. `leader` is NO_BROKER if no member of the ISR can lead.

    If `replicas` is empty, the replicas and a reassignment under way do not change. Otherwise `adding_replicas` and
    `removing_replicas`, subsets of it, are the reassignment under way; both are empty if there is none. `elr` and
    `last_known_elr` always replace the earlier ones, even if empty.
    """

    topic_id: TopicId
    partition: int
    isr: list[BrokerId]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    replicas: list[BrokerId] = field(default_factory=list)
    adding_replicas: list[BrokerId] = field(default_factory=list)
    removing_replicas: list[BrokerId] = field(default_factory=list)
    elr: list[BrokerId] = field(default_factory=list)
    last_known_elr: list[BrokerId] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeleted:
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigSet:
    """A topic config was set; `value` None returns it to the broker's default."""

    topic_id: TopicId
    key: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsAllocated:
    """Every producer id below `next_producer_id` is allocated."""

    next_producer_id: ProducerId


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelSet:
    """Every node of the cluster uses this level of the feature from here on."""

    feature: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigSet:
    """A dynamic broker config was set. `broker` is an id, or empty for all brokers; `value` None removes the config."""

    broker: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaSet:
    """A client quota was set. `entity` is ordered by type; `value` None removes the quota."""

    entity: list[QuotaEntity]
    key: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegun:
    """Begins a transaction, as the first record of an entry: the records after it take effect together at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """Ends a transaction, as the last record of an entry: all records since `TransactionBegun` take effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAborted:
    """Aborts a transaction, as the last record of an entry: no record since `TransactionBegun` takes effect."""


BrokerRecord = (
    RegisterBroker
    | BrokerFenced
    | BrokerUnfenced
    | BrokerShuttingDown
    | OperatorFenceSet
    | BrokerUnregistered
    | BrokerEpochsUsed
)
TopicRecord = TopicCreated | PartitionCreated | PartitionChanged | TopicDeleted | TopicConfigSet
SettingRecord = FeatureLevelSet | BrokerConfigSet | ClientQuotaSet
TransactionMarker = TransactionBegun | TransactionEnded | TransactionAborted
MetadataRecord = (
    ClusterInitialised | ProducerIdsAllocated | BrokerRecord | TopicRecord | SettingRecord | TransactionMarker
)
