from __future__ import annotations

from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraft.metadata.acls import AclEntry, acl_record
from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.features import SUPPORTED_FEATURES
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from kraft.metadata.records import (
    AclAdded,
    AclRemoved,
    BrokerConfigSet,
    BrokerFenced,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ClientMetricsConfigSet,
    ClientQuotaSet,
    ClusterInitialised,
    FeatureLevelSet,
    GroupConfigSet,
    MetadataRecord,
    OperatorFenceSet,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    QuotaEntity,
    RegisterBroker,
    ScramCredentialRemoved,
    ScramCredentialSet,
    TopicConfigSet,
    TopicCreated,
    TopicDeleted,
    UnknownUsersKeySet,
)
from kraft.metadata.snapshot_records import snapshot_records
from kraft.model.endpoint import Endpoint
from kraft.model.features import FeatureRange
from kraft.model.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    ProducerId,
    TopicId,
)
from kraft.sasl.scram import ScramMechanism
from tests.support.acl_entries import ENTRIES
from tests.support.cluster_images import cluster, with_topic

COVERED = {
    MetadataImage: {
        "cluster_id",
        "brokers",
        "topics",
        "topic_ids",
        "next_broker_epoch",
        "next_producer_id",
        "features",
        "broker_configs",
        "group_configs",
        "client_metrics",
        "client_quotas",
        "users",
        "acls",
    },
    BrokerRegistration: {
        "broker_id",
        "incarnation_id",
        "broker_epoch",
        "endpoints",
        "rack",
        "directory_ids",
        "fenced",
        "in_controlled_shutdown",
        "fenced_by_operator",
        "features",
    },
    TopicImage: {"topic", "topic_id", "partitions", "configs"},
    PartitionImage: {
        "partition",
        "replicas",
        "isr",
        "leader",
        "leader_epoch",
        "partition_epoch",
        "adding_replicas",
        "removing_replicas",
        "elr",
        "last_known_elr",
    },
}


def through_a_snapshot(image: MetadataImage) -> MetadataImage:
    return EMPTY_IMAGE.replay(snapshot_records(image))


def test_what_was_deleted_or_overtaken_leaves_no_record() -> None:
    image = with_topic(cluster(1, 2), [1, 2])
    (topic_id,) = image.topics
    registered = image.brokers[BrokerId(1)]
    again = RegisterBroker(
        broker_id=BrokerId(1),
        incarnation_id=UUID(int=77),
        broker_epoch=image.next_broker_epoch,
        endpoints=list(registered.endpoints),
        rack="",
        directory_ids=list(registered.directory_ids),
    )
    image = image.replay([TopicDeleted(topic_id=topic_id), again])
    assert through_a_snapshot(image) == image
    assert [type(record) for record in snapshot_records(image)] == [
        ClusterInitialised,
        *[FeatureLevelSet] * len(SUPPORTED_FEATURES),
        RegisterBroker,
        BrokerUnfenced,
        RegisterBroker,
    ]


def test_no_field_of_an_image_is_forgotten() -> None:
    """A field that is added to an image has to be given a record in a snapshot, and is then named here."""
    for image_type, covered in COVERED.items():
        assert set(image_type.__struct_fields__) == covered, image_type.__name__


# --- any image that records lead to -------------------------------------------------------------------------------

EXAMPLES = 40 if settings().derandomize else settings().max_examples
"""A history has dozens of records, which take long to draw; fresh examples are as many as everywhere."""

# How long a history takes to draw depends on what else the machine does, and decides no test.
AT_LEISURE = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAMES = st.text("abcxyz.-_", min_size=1, max_size=6)
CHANGES: list[type[BrokerFenced] | type[BrokerUnfenced] | type[BrokerShuttingDown]] = [
    BrokerFenced,
    BrokerUnfenced,
    BrokerShuttingDown,
]


@st.composite
def histories(draw: st.DrawFn) -> list[MetadataRecord]:
    """Records as a controller may write them."""
    records: list[MetadataRecord] = []
    if draw(st.booleans()):
        records.append(ClusterInitialised(cluster_id=draw(NAMES)))
    epoch = 1
    registered: dict[BrokerId, BrokerEpoch] = {}
    for broker_id in draw(st.lists(st.integers(0, 4), max_size=6)):
        epoch += draw(st.integers(0, 2))
        records.append(_registration(draw, broker_id, epoch))
        registered[BrokerId(broker_id)] = BrokerEpoch(epoch)
        epoch += 1
        changes = draw(st.lists(st.sampled_from(CHANGES), max_size=3))
        records += [change(broker_id=BrokerId(broker_id), broker_epoch=BrokerEpoch(epoch - 1)) for change in changes]
        fences = draw(st.lists(st.booleans(), max_size=2))
        records += [OperatorFenceSet(broker_id=BrokerId(broker_id), fenced=fenced) for fenced in fences]
    for gone_id, broker_epoch in registered.items():
        if draw(st.booleans()):
            records.append(BrokerUnregistered(broker_id=gone_id, broker_epoch=broker_epoch))
    records += _settings(draw)
    for number, name in enumerate(draw(st.lists(NAMES, max_size=4, unique=True))):
        records += _topic_history(draw, name, TopicId(UUID(int=number + 1)))
    next_id = 0
    for step in draw(st.lists(st.integers(1, 5_000), max_size=2)):
        next_id += step
        records.append(ProducerIdsAllocated(next_producer_id=ProducerId(next_id)))
    return records


def _settings(draw: st.DrawFn) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    levels = draw(st.lists(st.tuples(NAMES, st.integers(0, 3)), max_size=2))
    records += [FeatureLevelSet(feature=feature, level=level) for feature, level in levels]
    configs = draw(st.lists(st.tuples(st.sampled_from(["", "1", "2"]), NAMES, st.none() | NAMES), max_size=4))
    records += [BrokerConfigSet(broker=broker, key=key, value=value) for broker, key, value in configs]
    records += [GroupConfigSet(group_id=group or "g", key=key, value=value) for group, key, value in configs]
    records += [ClientMetricsConfigSet(name=name or "m", key=key, value=value) for name, key, value in configs]
    for name in draw(st.lists(st.none() | NAMES, max_size=3)):
        entity = [QuotaEntity(entity_type="user", name=name)]
        records.append(ClientQuotaSet(entity=entity, key=draw(NAMES), value=draw(st.none() | st.floats(1, 9))))
    if draw(st.booleans()):
        records.append(UnknownUsersKeySet(key=draw(st.binary(min_size=1, max_size=2))))
    for user, mechanism in draw(st.sets(st.tuples(NAMES, st.sampled_from(ScramMechanism)), max_size=4)):
        records.append(
            ScramCredentialSet(
                user=user, mechanism=mechanism.value, salt=b"s", iterations=4_096, stored_key=b"k", server_key=b"l"
            )
        )
        if draw(st.booleans()):
            records.append(ScramCredentialRemoved(user=user, mechanism=mechanism.value))
    added: set[AclEntry] = set()
    for each in draw(st.lists(ENTRIES, max_size=6)):
        records.append(acl_record(AclRemoved if each in added else AclAdded, each))
        added ^= {each}
    return records


def _registration(draw: st.DrawFn, broker_id: int, epoch: int) -> RegisterBroker:
    endpoints = [Endpoint(listener=name, host="host", port=1) for name in draw(st.lists(NAMES, max_size=2))]
    return RegisterBroker(
        broker_id=BrokerId(broker_id),
        incarnation_id=UUID(int=draw(st.integers(0, 2**128 - 1))),
        broker_epoch=BrokerEpoch(epoch),
        endpoints=endpoints,
        rack=draw(st.sampled_from(["", "a", "b"])),
        features=[FeatureRange(feature=name, min_level=0, max_level=1) for name in draw(st.lists(NAMES, max_size=2))],
        directory_ids=[DirectoryId(UUID(int=number)) for number in draw(st.lists(st.integers(0, 9), max_size=3))],
    )


def _topic_history(draw: st.DrawFn, name: str, topic_id: TopicId) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [TopicCreated(topic=name, topic_id=topic_id)]
    for number in range(draw(st.integers(0, 3))):
        replicas = [BrokerId(one) for one in draw(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True))]
        created = PartitionCreated(
            topic_id=topic_id,
            partition=number,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
        )
        records.append(created)
        changes = draw(st.integers(0, 3))
        for change in range(changes):
            isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
            outside = [replica for replica in replicas if replica not in isr]
            eligible = draw(st.integers(0, len(outside)))
            records.append(
                PartitionChanged(
                    topic_id=topic_id,
                    partition=number,
                    isr=isr,
                    leader=draw(st.sampled_from([NO_BROKER, *isr])),
                    leader_epoch=LeaderEpoch(change + 1),
                    partition_epoch=PartitionEpoch(change + 1),
                    elr=outside[:eligible],
                    last_known_elr=outside[eligible:],
                )
            )
        if len(replicas) > 2 and draw(st.booleans()):
            records.append(
                PartitionChanged(
                    topic_id=topic_id,
                    partition=number,
                    isr=replicas[:1],
                    leader=replicas[0],
                    leader_epoch=LeaderEpoch(changes + 1),
                    partition_epoch=PartitionEpoch(changes + 1),
                    replicas=draw(st.permutations(replicas)),
                    adding_replicas=replicas[1:2],
                    removing_replicas=replicas[2:],
                )
            )
    configs = draw(st.lists(st.tuples(NAMES, st.none() | NAMES), max_size=3))
    records += [TopicConfigSet(topic_id=topic_id, key=key, value=value) for key, value in configs]
    if draw(st.integers(0, 4)) == 0:
        records.append(TopicDeleted(topic_id=topic_id))
    return records


@AT_LEISURE
@given(histories())
def test_every_image_comes_back_through_a_snapshot(history: list[MetadataRecord]) -> None:
    image = EMPTY_IMAGE.replay(history)
    assert through_a_snapshot(image) == image


@AT_LEISURE
@given(histories())
def test_a_snapshot_has_no_more_records_than_the_history_that_led_to_it(history: list[MetadataRecord]) -> None:
    assert len(list(snapshot_records(EMPTY_IMAGE.replay(history)))) <= len(history)


@AT_LEISURE
@given(histories(), histories())
def test_the_log_goes_on_from_a_snapshot_as_from_the_image_itself(
    history: list[MetadataRecord], later: list[MetadataRecord]
) -> None:
    image = EMPTY_IMAGE.replay(history)
    topics = [record for record in later if isinstance(record, TopicCreated) and record.topic not in image.topic_ids]
    after = [TopicCreated(topic=one.topic, topic_id=TopicId(UUID(int=one.topic_id.int + 100))) for one in topics]
    assert through_a_snapshot(image).replay(after) == image.replay(after)
