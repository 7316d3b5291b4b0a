"""The metadata image: all metadata of the cluster as of one index of the metadata log.

An image never changes. `replay` returns the next one, which shares with it everything that the records did not change;
so the cost of a change does not depend on the size of the topic or the cluster (see `persistent_maps`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import assert_never
from uuid import UUID

from msgspec import Struct, field
from msgspec.structs import replace

from kraft.metadata.acls import NO_ACLS, Acls, AclsDraft
from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.persistent_maps import PersistentMap, SequenceDraft
from kraft.metadata.records import (
    AclRecord,
    BrokerEpochsUsed,
    BrokerFenced,
    BrokerRecord,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ClusterInitialised,
    MetadataRecord,
    MetadataTransactionAborted,
    MetadataTransactionBegun,
    MetadataTransactionEnded,
    OperatorFenceSet,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    RegisterBroker,
    SettingRecord,
    TopicConfigSet,
    TopicCreated,
    TopicDeleted,
    TopicRecord,
    TransactionMarker,
    UserRecord,
)
from kraft.metadata.settings import QuotaSubject, SettingsDraft
from kraft.metadata.small_maps import overlaid
from kraft.metadata.users import NO_USERS, Users, UsersDraft
from kraft.model.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    ProducerId,
    TopicId,
    TopicPartition,
)

_FIRST_BROKER_EPOCH = BrokerEpoch(1)
_FIRST_PRODUCER_ID = ProducerId(0)
_SLICE_PARTITIONS = 250


class PartitionImage(Struct, frozen=True, kw_only=True):
    """State of a partition. `replicas` are in order of preference; `isr` is a non-empty subset of them.

    `leader` is in the ISR, or NO_BROKER. During a reassignment, `adding_replicas` are the replicas that the partition
    did not have before, and `removing_replicas` those that are removed once all of the former are in sync.

    `elr`, the eligible leader replicas, are outside the ISR and hold every committed record; `last_known_elr` once did
    and are no longer trusted. See `kraft.metadata.eligible_replicas`.
    """

    partition: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_BROKER

    def counts_on(self, broker_id: BrokerId) -> bool:
        """Return whether a clean election may choose the broker: its replica holds every committed record."""
        return broker_id in self.isr or broker_id in self.elr

    @property
    def is_reassigned(self) -> bool:
        """True while a reassignment is under way."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def target_replicas(self) -> tuple[BrokerId, ...]:
        """The replicas after the reassignment under way; without one, the current replicas."""
        return tuple(replica for replica in self.replicas if replica not in self.removing_replicas)

    @property
    def original_replicas(self) -> tuple[BrokerId, ...]:
        """The replicas without those that the reassignment under way adds."""
        return tuple(replica for replica in self.replicas if replica not in self.adding_replicas)


class TopicImage(Struct, frozen=True, kw_only=True):
    """State of a topic. `configs` holds only the values set on the topic itself."""

    topic: str
    topic_id: TopicId
    partitions: Mapping[int, PartitionImage] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int:
        """Largest number of replicas of a partition, reassignments completed; 0 for a topic without partitions."""
        return max((len(partition.target_replicas) for partition in self.partitions.values()), default=0)


class MetadataImage(Struct, frozen=True, kw_only=True):
    """All metadata of the cluster. `cluster_id` is empty until the cluster is initialised.

    `features` are the levels that were set. `broker_configs` are by broker id; those under "" apply to all brokers.
    """

    cluster_id: str = ""
    brokers: Mapping[BrokerId, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    topic_ids: Mapping[str, TopicId] = field(default_factory=dict)
    next_broker_epoch: BrokerEpoch = _FIRST_BROKER_EPOCH
    next_producer_id: ProducerId = _FIRST_PRODUCER_ID
    features: Mapping[str, int] = field(default_factory=dict)
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    client_quotas: Mapping[QuotaSubject, Mapping[str, float]] = field(default_factory=dict)
    users: Users = NO_USERS
    acls: Acls = NO_ACLS

    def replay(self, records: Iterable[MetadataRecord]) -> MetadataImage:
        """Return the image after `records`. A record that does not fit is a bug, so the process stops."""
        draft = _ImageDraft(self)
        for record in records:
            draft.apply(record)
        return draft.image()

    def topic(self, name: str) -> TopicImage | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def topic_by_id(self, topic_id: UUID) -> TopicImage | None:
        return self.topics.get(TopicId(topic_id))

    def partition(self, name: TopicPartition) -> PartitionImage | None:
        topic = self.topic(name.topic)
        return None if topic is None else topic.partitions.get(name.partition)

    def partition_by_id(self, topic_id: TopicId, partition: int) -> PartitionImage | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        return self.brokers.get(BrokerId(broker_id))

    def is_alive(self, broker_id: BrokerId) -> bool:
        registration = self.brokers.get(broker_id)
        return registration is not None and not registration.fenced

    def is_active(self, broker_id: BrokerId) -> bool:
        registration = self.brokers.get(broker_id)
        return registration is not None and registration.active

    def alive_brokers(self) -> list[BrokerRegistration]:
        """Return the brokers that are not fenced, by id: clients may be sent to them."""
        return [self.brokers[broker_id] for broker_id in sorted(self.brokers) if not self.brokers[broker_id].fenced]

    def active_brokers(self) -> list[BrokerRegistration]:
        """Return the unfenced brokers that are not shutting down, by id: they may get leaderships."""
        return [registration for registration in self.alive_brokers() if registration.active]

    def in_slices(self) -> Iterator[MetadataImage]:
        """Yield images with some of the topics each, and all brokers and settings; every topic is in one of them.

        A decision on every partition of the cluster can so be interrupted for other work.
        """
        topics: dict[TopicId, TopicImage] = {}
        partitions = 0
        for topic_id, topic in self.topics.items():
            topics[topic_id] = topic
            partitions += len(topic.partitions)
            if partitions >= _SLICE_PARTITIONS:
                yield replace(self, topics=topics)
                topics, partitions = {}, 0
        if topics:
            yield replace(self, topics=topics)

    def partitions_of(self, broker_id: BrokerId) -> Iterator[tuple[TopicImage, PartitionImage]]:
        """Yield every partition of which the broker holds a replica. Reads all partitions of the cluster."""
        for topic in self.topics.values():
            for partition in topic.partitions.values():
                if broker_id in partition.replicas:
                    yield topic, partition


EMPTY_IMAGE = MetadataImage()

CurrentImage = Callable[[], MetadataImage]
"""Returns the image that is current: what a broker has applied, or a controller has committed."""

CurrentIndex = Callable[[], int]
"""Returns the index of the last metadata entry in it."""

ImageCondition = Callable[[MetadataImage], bool]
"""Returns whether something is true of an image."""


class _TopicDraft:
    """A topic while records are replayed onto it."""

    __slots__ = ("configs", "name", "partitions", "topic_id")

    def __init__(self, topic: TopicImage) -> None:
        self.name = topic.topic
        self.topic_id = topic.topic_id
        self.partitions = SequenceDraft(topic.partitions)
        self.configs = dict(topic.configs)

    def image(self) -> TopicImage:
        return TopicImage(
            topic=self.name, topic_id=self.topic_id, partitions=self.partitions.sequence(), configs=self.configs
        )


class _ImageDraft:
    """The next image while records are replayed: copies of what they change, made at the first change."""

    def __init__(self, before: MetadataImage) -> None:
        self._before = before
        self._cluster_id = before.cluster_id
        self._next_broker_epoch = before.next_broker_epoch
        self._next_producer_id = before.next_producer_id
        # None: the broker was unregistered.
        self._changed_brokers: dict[BrokerId, BrokerRegistration | None] = {}
        # None: the topic was deleted.
        self._changed_topics: dict[TopicId, _TopicDraft | None] = {}
        self._changed_names: dict[str, TopicId | None] = {}
        self._settings = SettingsDraft(before)
        self._users = UsersDraft(before.users)
        self._acls = AclsDraft(before.acls)

    def image(self) -> MetadataImage:
        before = self._before
        topics: dict[TopicId, TopicImage | None] = {
            topic_id: None if draft is None else draft.image() for topic_id, draft in self._changed_topics.items()
        }
        return MetadataImage(
            cluster_id=self._cluster_id,
            brokers=overlaid(before.brokers, self._changed_brokers),
            topics=PersistentMap.of(before.topics).with_changes(topics),
            topic_ids=PersistentMap.of(before.topic_ids).with_changes(self._changed_names),
            next_broker_epoch=self._next_broker_epoch,
            next_producer_id=self._next_producer_id,
            features=self._settings.features,
            broker_configs=self._settings.broker_configs,
            group_configs=self._settings.group_configs,
            client_metrics=self._settings.client_metrics,
            client_quotas=self._settings.client_quotas,
            users=self._users.users(),
            acls=self._acls.acls(),
        )

    def apply(self, record: MetadataRecord) -> None:
        if isinstance(record, TopicRecord):
            self._apply_to_topics(record)
        elif isinstance(record, BrokerRecord):
            self._apply_to_brokers(record)
        elif isinstance(record, SettingRecord):
            self._settings.apply(record)
        elif isinstance(record, UserRecord):
            self._users.apply(record)
        elif isinstance(record, AclRecord):
            self._acls.apply(record)
        else:
            self._apply_to_cluster(record)

    def _apply_to_cluster(self, record: ClusterInitialised | ProducerIdsAllocated | TransactionMarker) -> None:
        match record:
            case ClusterInitialised():
                assert not self._cluster_id, f"{record} in cluster {self._cluster_id}"
                self._cluster_id = record.cluster_id
            case ProducerIdsAllocated():
                assert record.next_producer_id > self._next_producer_id, f"{record} after {self._next_producer_id}"
                self._next_producer_id = record.next_producer_id
            case MetadataTransactionBegun() | MetadataTransactionEnded() | MetadataTransactionAborted():
                raise AssertionError(f"{record} is a marker for `replayed_image` and changes no image")
            case _:
                assert_never(record)

    # --- brokers ---

    def _apply_to_brokers(self, record: BrokerRecord) -> None:
        match record:
            case RegisterBroker():
                self._register(record)
            case BrokerFenced():
                self._changed_brokers[record.broker_id] = replace(self._registered(record), fenced=True)
            case BrokerUnfenced():
                self._changed_brokers[record.broker_id] = replace(self._registered(record), fenced=False)
            case BrokerShuttingDown():
                registration = replace(self._registered(record), in_controlled_shutdown=True)
                self._changed_brokers[record.broker_id] = registration
            case OperatorFenceSet():
                registration = replace(self._known(record), fenced_by_operator=record.fenced)
                self._changed_brokers[record.broker_id] = registration
            case BrokerUnregistered():
                self._registered(record)
                self._changed_brokers[record.broker_id] = None
            case BrokerEpochsUsed():
                assert record.next_broker_epoch >= self._next_broker_epoch, f"{record} after {self._next_broker_epoch}"
                self._next_broker_epoch = record.next_broker_epoch
            case _:
                assert_never(record)

    def _register(self, record: RegisterBroker) -> None:
        assert record.broker_epoch >= self._next_broker_epoch, f"{record} below epoch {self._next_broker_epoch}"
        self._next_broker_epoch = BrokerEpoch(record.broker_epoch + 1)
        earlier = self._broker(record.broker_id)
        self._changed_brokers[record.broker_id] = BrokerRegistration(
            broker_id=record.broker_id,
            incarnation_id=record.incarnation_id,
            broker_epoch=record.broker_epoch,
            endpoints=tuple(record.endpoints),
            rack=record.rack,
            directory_ids=tuple(record.directory_ids),
            fenced=True,
            in_controlled_shutdown=False,
            fenced_by_operator=earlier is not None and earlier.fenced_by_operator,
            features=tuple(record.features),
        )

    def _broker(self, broker_id: BrokerId) -> BrokerRegistration | None:
        if broker_id in self._changed_brokers:
            return self._changed_brokers[broker_id]
        return self._before.brokers.get(broker_id)

    def _known(
        self, record: BrokerFenced | BrokerUnfenced | BrokerShuttingDown | BrokerUnregistered | OperatorFenceSet
    ) -> BrokerRegistration:
        registration = self._broker(record.broker_id)
        assert registration is not None, f"{record} for a broker that is not registered"
        return registration

    def _registered(
        self, record: BrokerFenced | BrokerUnfenced | BrokerShuttingDown | BrokerUnregistered
    ) -> BrokerRegistration:
        registration = self._known(record)
        assert registration.broker_epoch == record.broker_epoch, f"{record} for {registration}"
        return registration

    # --- topics ---

    def _apply_to_topics(self, record: TopicRecord) -> None:
        match record:
            case TopicCreated():
                self._create_topic(record)
            case TopicDeleted():
                self._changed_names[self._topic(record).name] = None
                self._changed_topics[record.topic_id] = None
            case TopicConfigSet():
                self._set_config(record)
            case PartitionCreated():
                self._create_partition(record)
            case PartitionChanged():
                self._change_partition(record)
            case _:
                assert_never(record)

    def _topic(self, record: PartitionCreated | PartitionChanged | TopicDeleted | TopicConfigSet) -> _TopicDraft:
        topic_id = record.topic_id
        if topic_id not in self._changed_topics:
            before = self._before.topics.get(topic_id)
            assert before is not None, f"{record} for an unknown topic"
            self._changed_topics[topic_id] = _TopicDraft(before)
        draft = self._changed_topics[topic_id]
        assert draft is not None, f"{record} for a deleted topic"
        return draft

    def _create_topic(self, record: TopicCreated) -> None:
        same_name = self._changed_names.get(record.topic, self._before.topic_ids.get(record.topic))
        assert same_name is None, f"{record} beside topic {same_name}"
        assert record.topic_id not in self._before.topics, f"{record} reuses an id"
        assert record.topic_id not in self._changed_topics, f"{record} reuses an id"
        self._changed_names[record.topic] = record.topic_id
        self._changed_topics[record.topic_id] = _TopicDraft(TopicImage(topic=record.topic, topic_id=record.topic_id))

    def _set_config(self, record: TopicConfigSet) -> None:
        configs = self._topic(record).configs
        if record.value is None:
            configs.pop(record.key, None)
        else:
            configs[record.key] = record.value

    def _create_partition(self, record: PartitionCreated) -> None:
        partitions = self._topic(record).partitions
        assert record.partition == len(partitions), f"{record} out of order, after {len(partitions)} partitions"
        created = PartitionImage(
            partition=record.partition,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            adding_replicas=tuple(record.adding_replicas),
            removing_replicas=tuple(record.removing_replicas),
            elr=tuple(record.elr),
            last_known_elr=tuple(record.last_known_elr),
        )
        partitions[record.partition] = _consistent(created)

    def _change_partition(self, record: PartitionChanged) -> None:
        partitions = self._topic(record).partitions
        before = partitions.get(record.partition)
        assert before is not None, f"{record} for an unknown partition"
        assert record.partition_epoch == before.partition_epoch + 1, f"{record} after {before}"
        leader_changed = record.leader != before.leader
        assert record.leader_epoch >= before.leader_epoch + leader_changed, f"{record} after {before}"
        changed = replace(
            before,
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            elr=tuple(record.elr),
            last_known_elr=tuple(record.last_known_elr),
        )
        if record.replicas:
            changed = replace(
                changed,
                replicas=tuple(record.replicas),
                adding_replicas=tuple(record.adding_replicas),
                removing_replicas=tuple(record.removing_replicas),
            )
            # A fetch that a replica sent before its removal may arrive after it was added again, and would claim
            # records that it no longer holds. The later leader epoch exposes it.
            is_removal = not set(before.replicas).issubset(changed.replicas)
            assert not is_removal or changed.leader_epoch > before.leader_epoch, f"{record} after {before}"
        partitions[record.partition] = _consistent(changed)


def _consistent(partition: PartitionImage) -> PartitionImage:
    """Return the partition; assert that its ISR, ELR and leader fit its replicas."""
    isr, replicas = set(partition.isr), set(partition.replicas)
    assert len(replicas) == len(partition.replicas) > 0, f"bad replicas: {partition}"
    assert len(isr) == len(partition.isr) > 0, f"bad ISR: {partition}"
    assert isr.issubset(replicas), f"ISR beyond the replicas: {partition}"
    assert replicas.issuperset(partition.adding_replicas), f"an added replica beyond the replicas: {partition}"
    assert replicas.issuperset(partition.removing_replicas), f"a removed replica beyond the replicas: {partition}"
    assert not set(partition.adding_replicas) & set(partition.removing_replicas), f"added and removed: {partition}"
    assert not partition.has_leader or partition.leader in isr, f"leader outside the ISR: {partition}"
    if partition.elr or partition.last_known_elr:
        # Checked apart, because most partitions have neither at any time.
        outside = (*partition.elr, *partition.last_known_elr)
        assert len(set(outside)) == len(outside), f"eligible twice: {partition}"
        assert replicas.issuperset(outside), f"ELR beyond the replicas: {partition}"
        assert isr.isdisjoint(outside), f"ELR within the ISR: {partition}"
    return partition
