"""Small clusters for the tests, built the way real ones are: by replaying records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from kraft.log.topic_config import KAFKA_DEFAULTS
from kraft.metadata.broker_decisions import fence_broker
from kraft.metadata.features import (
    SUPPORTED_FEATURES,
)
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from kraft.metadata.leader_election import partition_change
from kraft.metadata.records import (
    BrokerUnfenced,
    ClusterInitialised,
    FeatureLevelSet,
    MetadataRecord,
    PartitionCreated,
    RegisterBroker,
    TopicCreated,
)
from kraft.model.endpoint import Endpoint
from kraft.model.features import FeatureRange
from kraft.model.ids import (
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from kraft.model.register_broker import RegisterBrokerRequest

CLUSTER = "kJ2Yk0mVT0ma0wV2Yk0mVQ"
ORDERS = TopicId(UUID(int=100))


def ids(*numbers: int) -> list[BrokerId]:
    return [BrokerId(number) for number in numbers]


def registration(broker_id: int, *, process: int = 1, cluster_id: str = CLUSTER) -> RegisterBrokerRequest:
    """Return the registration request of a broker's first, second ... process."""
    return RegisterBrokerRequest(
        cluster_id=cluster_id,
        broker_id=BrokerId(broker_id),
        incarnation_id=UUID(int=1_000 * broker_id + process),
        endpoints=[Endpoint(listener="GRPC", host="localhost", port=9094 + broker_id)],
        rack="",
        directory_ids=[DirectoryId(UUID(int=broker_id))],
        features=list(SUPPORTED_FEATURES.values()),
    )


def registered(
    broker_id: int, *, epoch: int, process: int = 1, rack: str = "", features: Sequence[FeatureRange] = ()
) -> RegisterBroker:
    """The record of a registration."""
    request = registration(broker_id, process=process)
    return RegisterBroker(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=BrokerEpoch(epoch),
        endpoints=request.endpoints,
        rack=rack,
        directory_ids=request.directory_ids,
        features=list(features),
    )


def cluster(*broker_ids: int, racks: Mapping[int, str] | None = None) -> MetadataImage:
    """Return an image of unfenced brokers, registered in this order, from epoch 1 on. Features are at their latest."""
    records: list[MetadataRecord] = [
        ClusterInitialised(cluster_id=CLUSTER),
        *(FeatureLevelSet(feature=each.feature, level=each.max_level) for each in SUPPORTED_FEATURES.values()),
    ]
    for epoch, broker_id in enumerate(broker_ids, start=1):
        rack = (racks or {}).get(broker_id, "")
        records += [
            registered(broker_id, epoch=epoch, rack=rack, features=list(SUPPORTED_FEATURES.values())),
            BrokerUnfenced(broker_id=BrokerId(broker_id), broker_epoch=BrokerEpoch(epoch)),
        ]
    return EMPTY_IMAGE.replay(records)


def with_topic(
    image: MetadataImage,
    *assignment: Sequence[int],
    isr: Sequence[int] | None = None,
    topic: str = "orders",
    topic_id: TopicId = ORDERS,
) -> MetadataImage:
    """Add a topic on the given replicas, all in sync unless `isr` is given; the first in-sync replica leads."""
    records: list[MetadataRecord] = [TopicCreated(topic=topic, topic_id=topic_id)]
    for number, replicas in enumerate(assignment):
        records.append(_partition_created(topic_id, number, replicas, replicas if isr is None else isr))
    return image.replay(records)


def with_partition(image: MetadataImage, number: int, replicas: Sequence[int], *, topic_id: TopicId) -> MetadataImage:
    """Add a partition to a topic, with all replicas in sync."""
    return image.replay([_partition_created(topic_id, number, replicas, replicas)])


def _partition_created(topic_id: TopicId, number: int, replicas: Sequence[int], isr: Sequence[int]) -> PartitionCreated:
    return PartitionCreated(
        topic_id=topic_id,
        partition=number,
        replicas=ids(*replicas),
        isr=ids(*isr),
        leader=BrokerId(isr[0]),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
    )


def epoch_of(image: MetadataImage, broker_id: int) -> BrokerEpoch:
    return image.brokers[BrokerId(broker_id)].broker_epoch


def fenced(image: MetadataImage, broker_id: int) -> MetadataImage:
    return image.replay(fence_broker(image, BrokerId(broker_id), epoch_of(image, broker_id)).records)


def partition(image: MetadataImage, number: int = 0) -> PartitionImage:
    return image.topics[ORDERS].partitions[number]


def with_isr(image: MetadataImage, *isr: int, leader: int) -> MetadataImage:
    """Give the first partition another ISR and leader."""
    changes = partition_change(
        image,
        image.topics[ORDERS],
        partition(image),
        ids(*isr),
        lambda candidate: candidate == leader,
        defaults=KAFKA_DEFAULTS,
    )
    return image.replay(changes)


def earlier_cluster(*features: list[FeatureRange]) -> MetadataImage:
    """Return an image with features at their first level, and a broker for each list of supported features."""
    image = EMPTY_IMAGE.replay([ClusterInitialised(cluster_id=CLUSTER)])
    for broker_id, supported in enumerate(features, start=1):
        image = image.replay([registered(broker_id, epoch=broker_id, features=supported)])
    return image


TODAY = list(SUPPORTED_FEATURES.values())
