"""The records of the metadata log.

Every record carries new values, never differences, so that replaying one needs only the image before it. The fields are
plain (numbers, text, ids, lists and nested values) because the log's codec maps them by name.
"""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct, field

from kraft.model.endpoint import Endpoint
from kraft.model.features import FeatureRange
from kraft.model.ids import BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, ProducerId, TopicId


class ClusterInitialised(Struct, frozen=True, kw_only=True):
    """The first record of a cluster; it is written only once."""

    cluster_id: str


class RegisterBroker(Struct, frozen=True, kw_only=True):
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


class BrokerFenced(Struct, frozen=True, kw_only=True):
    """The broker leads nothing until it is unfenced."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class BrokerUnfenced(Struct, frozen=True, kw_only=True):
    """The broker may lead, join an ISR and get new replicas."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class BrokerShuttingDown(Struct, frozen=True, kw_only=True):
    """The broker asked for a controlled shutdown; only a new registration ends that state."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class OperatorFenceSet(Struct, frozen=True, kw_only=True):
    """An operator set or removed the broker's operator fence, which persists over registrations."""

    broker_id: BrokerId
    fenced: bool


class BrokerUnregistered(Struct, frozen=True, kw_only=True):
    """The broker was removed from the metadata, until it registers again."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


class BrokerEpochsUsed(Struct, frozen=True, kw_only=True):
    """Every broker epoch below `next_broker_epoch` is used; in snapshots only, since the last broker may be gone."""

    next_broker_epoch: BrokerEpoch


class TopicCreated(Struct, frozen=True, kw_only=True):
    topic: str
    topic_id: TopicId


class PartitionCreated(Struct, frozen=True, kw_only=True):
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


class PartitionChanged(Struct, frozen=True, kw_only=True):
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


class TopicDeleted(Struct, frozen=True, kw_only=True):
    topic_id: TopicId


class TopicConfigSet(Struct, frozen=True, kw_only=True):
    """A topic config was set; `value` None returns it to the broker's default."""

    topic_id: TopicId
    key: str
    value: str | None


class ProducerIdsAllocated(Struct, frozen=True, kw_only=True):
    """Every producer id below `next_producer_id` is allocated."""

    next_producer_id: ProducerId


class FeatureLevelSet(Struct, frozen=True, kw_only=True):
    """Every node of the cluster uses this level of the feature from here on."""

    feature: str
    level: int


class BrokerConfigSet(Struct, frozen=True, kw_only=True):
    """A dynamic broker config was set. `broker` is an id, or empty for all brokers; `value` None removes the config."""

    broker: str
    key: str
    value: str | None


class GroupConfigSet(Struct, frozen=True, kw_only=True):
    """A config of a consumer group was set; `value` None removes it."""

    group_id: str
    key: str
    value: str | None


class ClientMetricsConfigSet(Struct, frozen=True, kw_only=True):
    """A config of a subscription to clients' metrics was set; `value` None removes it. Without any there is none."""

    name: str
    key: str
    value: str | None


class QuotaEntity(Struct, frozen=True, kw_only=True):
    """Part of the entity of a quota: a user, a client-id or an ip.

    `name` None is the default, for all that have no quota of their own.
    """

    entity_type: str
    name: str | None


class ClientQuotaSet(Struct, frozen=True, kw_only=True):
    """A client quota was set. `entity` is ordered by type; `value` None removes the quota."""

    entity: list[QuotaEntity]
    key: str
    value: float | None


class ScramCredentialSet(Struct, frozen=True, kw_only=True):
    """A user got a password. `mechanism` is the name of one of SCRAM; the other fields are its `ScramCredential`."""

    user: str
    mechanism: str
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramCredentialSet(user={self.user!r}, mechanism={self.mechanism!r})"


class ScramCredentialRemoved(Struct, frozen=True, kw_only=True):
    """The user's credential of the mechanism was removed; one without credentials is no user any more."""

    user: str
    mechanism: str


class UnknownUsersKeySet(Struct, frozen=True, kw_only=True):
    """The key from which the credentials of users that do not exist are derived. It comes with the first user."""

    key: bytes

    def __repr__(self) -> str:
        return "UnknownUsersKeySet()"


class AclRecordFields(Struct, frozen=True, kw_only=True, gc=False):
    """An ACL. Its types, operation and permission are Kafka's numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


class AclAdded(AclRecordFields, frozen=True, kw_only=True, gc=False):
    """The ACL was not there before."""


class AclRemoved(AclRecordFields, frozen=True, kw_only=True, gc=False):
    """The ACL was there before."""


class MetadataTransactionBegun(Struct, frozen=True, kw_only=True):
    """Begins a transaction, as the first record of an entry: the records after it take effect together at its end."""


class MetadataTransactionEnded(Struct, frozen=True, kw_only=True):
    """Ends a transaction, as the last record of an entry: all records since `MetadataTransactionBegun` take effect."""


class MetadataTransactionAborted(Struct, frozen=True, kw_only=True):
    """Aborts a transaction, as the last record of an entry: no record since `MetadataTransactionBegun` takes effect."""


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
UserRecord = ScramCredentialSet | ScramCredentialRemoved | UnknownUsersKeySet
AclRecord = AclAdded | AclRemoved
SettingRecord = FeatureLevelSet | BrokerConfigSet | ClientQuotaSet | GroupConfigSet | ClientMetricsConfigSet
TransactionMarker = MetadataTransactionBegun | MetadataTransactionEnded | MetadataTransactionAborted
MetadataRecord = (
    ClusterInitialised
    | ProducerIdsAllocated
    | BrokerRecord
    | TopicRecord
    | SettingRecord
    | UserRecord
    | AclRecord
    | TransactionMarker
)
