"""The facts that the metadata log holds, in the order in which they became true.

Every record carries new values, never differences, so that replaying one needs no more than the image before it. The
fields are plain (numbers, text, ids, lists and nested dataclasses) because the log's codec maps them by name.
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
    """The first record of a cluster; it is never written a second time."""

    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker's process became known under a new epoch. It starts fenced, whatever it was before.

    `features` is empty for a broker of a version that did not tell them.
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
class OperatorFenceSet:
    """An operator keeps the broker fenced, or does so no longer. It outlives the broker's registrations."""

    broker_id: BrokerId
    fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnregistered:
    """The broker is gone for good: it is known again only when it registers anew."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEpochsUsed:
    """Every broker epoch below `next_broker_epoch` is given away; for snapshots, where the last of them may be gone."""

    next_broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreated:
    topic: str
    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCreated:
    """Partitions of a topic are created in order, from 0 on. The first of `replicas` is the preferred leader.

    `adding_replicas` and `removing_replicas`, both among `replicas`, are there only in a snapshot of a reassignment
    that was under way; `elr` and `last_known_elr` only in a snapshot, too.
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
    """The partition's new state in full. `leader` is NO_BROKER while nobody in the ISR can lead.

    Without `replicas` they stay as they are, and so does a reassignment that is under way. With them,
    `adding_replicas` and `removing_replicas`, both among them, say what is under way from here on: nothing, if empty.
    `elr` and `last_known_elr` are what they are from here on, also if empty.
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
    """`value` None takes the key back to the broker's default."""

    topic_id: TopicId
    key: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsAllocated:
    """Every producer id below `next_producer_id` is given away."""

    next_producer_id: ProducerId


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelSet:
    """Every node of the cluster acts on this level of the feature from here on."""

    feature: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigSet:
    """`broker` is a broker's id, or empty for all that set nothing themselves; `value` None takes the key back."""

    broker: str
    key: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaSet:
    """`entity` in the order of its types; `value` None takes the quota away."""

    entity: list[QuotaEntity]
    key: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegun:
    """The first record of an entry. All records from here on count together, when the transaction ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """The last record of an entry: everything since `TransactionBegun` counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAborted:
    """The last record of an entry: nothing since `TransactionBegun` counts."""


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
