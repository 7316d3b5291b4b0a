"""The records of a snapshot: the shortest list that replays into an image from the empty one.

A reader replays them like the metadata log, so it needs no other format.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraft.metadata.broker_registration import BrokerRegistration
from kraft.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from kraft.metadata.records import (
    BrokerConfigSet,
    BrokerEpochsUsed,
    BrokerShuttingDown,
    BrokerUnfenced,
    ClientMetricsConfigSet,
    ClientQuotaSet,
    ClusterInitialised,
    FeatureLevelSet,
    GroupConfigSet,
    MetadataRecord,
    OperatorFenceSet,
    PartitionCreated,
    ProducerIdsAllocated,
    RegisterBroker,
    TopicConfigSet,
    TopicCreated,
)


def snapshot_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Yield records such that `EMPTY_IMAGE.replay(snapshot_records(image)) == image`."""
    if image.cluster_id:
        yield ClusterInitialised(cluster_id=image.cluster_id)
    for feature, level in image.features.items():
        yield FeatureLevelSet(feature=feature, level=level)
    if image.next_producer_id != EMPTY_IMAGE.next_producer_id:
        yield ProducerIdsAllocated(next_producer_id=image.next_producer_id)
    # Replay accepts registrations only in the order of their epochs; the last one sets the next epoch.
    next_broker_epoch: int = EMPTY_IMAGE.next_broker_epoch
    for broker in sorted(image.brokers.values(), key=lambda broker: broker.broker_epoch):
        yield from _broker_records(broker)
        next_broker_epoch = broker.broker_epoch + 1
    if image.next_broker_epoch != next_broker_epoch:
        # The broker with the last epoch may be unregistered, and its epoch must not be used again.
        yield BrokerEpochsUsed(next_broker_epoch=image.next_broker_epoch)
    yield from _config_records(image)
    for subject, quotas in image.client_quotas.items():
        for key, quota in quotas.items():
            yield ClientQuotaSet(entity=list(subject), key=key, value=quota)
    yield from image.users.records()
    yield from image.acls.records()
    for topic in image.topics.values():
        yield from _topic_records(topic)


def _config_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    for name, configs in image.broker_configs.items():
        for key, value in configs.items():
            yield BrokerConfigSet(broker=name, key=key, value=value)
    for group_id, configs in image.group_configs.items():
        for key, value in configs.items():
            yield GroupConfigSet(group_id=group_id, key=key, value=value)
    for name, configs in image.client_metrics.items():
        for key, value in configs.items():
            yield ClientMetricsConfigSet(name=name, key=key, value=value)


def _broker_records(broker: BrokerRegistration) -> Iterator[MetadataRecord]:
    yield RegisterBroker(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        endpoints=list(broker.endpoints),
        rack=broker.rack,
        directory_ids=list(broker.directory_ids),
        features=list(broker.features),
    )
    if broker.fenced_by_operator:
        yield OperatorFenceSet(broker_id=broker.broker_id, fenced=True)
    if not broker.fenced:
        yield BrokerUnfenced(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    if broker.in_controlled_shutdown:
        yield BrokerShuttingDown(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)


def _topic_records(topic: TopicImage) -> Iterator[MetadataRecord]:
    yield TopicCreated(topic=topic.topic, topic_id=topic.topic_id)
    for number in sorted(topic.partitions):
        partition = topic.partitions[number]
        yield PartitionCreated(
            topic_id=topic.topic_id,
            partition=partition.partition,
            replicas=list(partition.replicas),
            isr=list(partition.isr),
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            adding_replicas=list(partition.adding_replicas),
            removing_replicas=list(partition.removing_replicas),
            elr=list(partition.elr),
            last_known_elr=list(partition.last_known_elr),
        )
    for key, value in topic.configs.items():
        yield TopicConfigSet(topic_id=topic.topic_id, key=key, value=value)
