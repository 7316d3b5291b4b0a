from __future__ import annotations

from uuid import UUID

import pytest
from msgspec.structs import replace

from kraft.metadata.image import EMPTY_IMAGE
from kraft.metadata.records import (
    BrokerFenced,
    BrokerUnfenced,
    ClusterInitialised,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    RegisterBroker,
    TopicCreated,
    TopicDeleted,
)
from kraft.model.endpoint import Endpoint
from kraft.model.ids import BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch, ProducerId, TopicId
from tests.support.cluster_images import CLUSTER, ORDERS, cluster, ids, partition, with_topic

CHANGE = PartitionChanged(
    topic_id=ORDERS,
    partition=0,
    isr=ids(2),
    leader=BrokerId(2),
    leader_epoch=LeaderEpoch(1),
    partition_epoch=PartitionEpoch(1),
)
CREATION = PartitionCreated(
    topic_id=ORDERS,
    partition=1,
    replicas=ids(1, 2),
    isr=ids(1, 2),
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(0),
    partition_epoch=PartitionEpoch(0),
)
REGISTRATION = RegisterBroker(
    broker_id=BrokerId(1),
    incarnation_id=UUID(int=9),
    broker_epoch=BrokerEpoch(7),
    endpoints=[Endpoint(listener="GRPC", host="b1", port=9094)],
    rack="r1",
    directory_ids=[DirectoryId(UUID(int=3))],
)


def test_a_topic_is_found_by_name_by_id_and_by_the_brokers_that_hold_it() -> None:
    image = with_topic(cluster(1, 2, 3), [1, 2], [2, 3])
    topic = image.topic("orders")
    assert topic is not None
    assert topic is image.topic_by_id(ORDERS)
    assert topic.replication_factor == 2
    assert [state.partition for _, state in image.partitions_of(BrokerId(2))] == [0, 1]
    assert [state.partition for _, state in image.partitions_of(BrokerId(3))] == [1]
    assert image.topic("payments") is None
    assert image.topic_by_id(UUID(int=1)) is None


def test_the_image_before_stays_as_it_was_and_untouched_topics_are_shared() -> None:
    other = TopicId(UUID(int=101))
    before = with_topic(with_topic(cluster(1, 2), [1, 2]), [1], topic="payments", topic_id=other)
    after = before.replay([CHANGE])
    assert partition(before).isr == (1, 2)
    assert after.topics[other] is before.topics[other]
    assert after.topics[ORDERS] is not before.topics[ORDERS]
    assert after.brokers is before.brokers
    assert after.topic_ids is before.topic_ids


@pytest.mark.parametrize(
    "record",
    [
        ClusterInitialised(cluster_id=CLUSTER),
        replace(REGISTRATION, broker_epoch=BrokerEpoch(2)),
        BrokerFenced(broker_id=BrokerId(9), broker_epoch=BrokerEpoch(1)),
        BrokerUnfenced(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(2)),
        ProducerIdsAllocated(next_producer_id=ProducerId(0)),
        TopicCreated(topic="orders", topic_id=TopicId(UUID(int=5))),
        TopicCreated(topic="payments", topic_id=ORDERS),
        TopicDeleted(topic_id=TopicId(UUID(int=5))),
        replace(CREATION, partition=0),
        replace(CREATION, partition=2),
        replace(CREATION, replicas=[], isr=[]),
        replace(CREATION, replicas=ids(1, 1)),
        replace(CREATION, isr=ids(1, 3)),
        replace(CREATION, isr=ids(2)),
        replace(CHANGE, partition=7),
        replace(CHANGE, isr=[]),
        replace(CHANGE, isr=ids(2, 2)),
        replace(CHANGE, isr=ids(1)),
        replace(CHANGE, leader_epoch=LeaderEpoch(0)),
        replace(CHANGE, partition_epoch=PartitionEpoch(0)),
        replace(CHANGE, partition_epoch=PartitionEpoch(2)),
        replace(CHANGE, replicas=ids(1)),
        replace(CHANGE, replicas=ids(2, 2)),
        replace(CHANGE, replicas=ids(1, 2), adding_replicas=ids(3)),
        replace(CHANGE, replicas=ids(1, 2), removing_replicas=ids(3)),
        replace(CHANGE, replicas=ids(1, 2), adding_replicas=ids(2), removing_replicas=ids(2)),
        replace(CHANGE, replicas=ids(2), leader=BrokerId(2), leader_epoch=LeaderEpoch(0)),
    ],
    ids=str,
)
def test_a_record_that_does_not_fit_the_image_stops_the_process(record: MetadataRecord) -> None:
    image = with_topic(cluster(1, 2), [1, 2])
    with pytest.raises(AssertionError):
        image.replay([record])


def test_slices_of_an_image_have_all_topics_between_them_and_everything_else_each() -> None:
    image = cluster(1, 2)
    for number in range(1_000):
        image = with_topic(image, [1, 2], topic=f"t-{number}", topic_id=TopicId(UUID(int=1_000 + number)))
    slices = list(image.in_slices())
    assert len(slices) > 1
    assert {topic_id: topic for part in slices for topic_id, topic in part.topics.items()} == image.topics
    assert sum(len(part.topics) for part in slices) == len(image.topics)
    assert all(part.brokers is image.brokers for part in slices)
    assert list(EMPTY_IMAGE.in_slices()) == []
