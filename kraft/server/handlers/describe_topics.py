"""DescribeTopics: topics with their partitions and the configs set on them."""

from __future__ import annotations

from typing import Final

from kraft.metadata.described_topics import DescribeTopicsRequest, DescribeTopicsResponse, TopicDescription
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.metadata.topic_names import INTERNAL_TOPICS, unknown_topic
from kraft.model.errors import ErrorCode
from kraft.server.handlers.authorized_operations import ON_TOPIC
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PARTITIONS_AT_ONCE: Final = 500
"""Partitions that are described before other tasks have their turn: there may be 50,000."""


async def describe_topics(image: MetadataImage, request: DescribeTopicsRequest) -> DescribeTopicsResponse:
    """Describe the topics. One that is named twice is described once."""
    names = list(dict.fromkeys(request.topics)) or sorted(image.topic_ids)
    turns, topics = Turns(PARTITIONS_AT_ONCE), []
    for name in names:
        topics.append(_describe(image, name, request))
        await turns.done(1 + len(topics[-1].metadata.partitions))
    return DescribeTopicsResponse(topics=topics)


def _describe(image: MetadataImage, name: str, request: DescribeTopicsRequest) -> TopicDescription:
    topic, wanted = image.topic(name), request.config_names
    metadata = described(image, name, with_partitions=not request.without_partitions)
    if topic is None:
        return TopicDescription(topic=name, metadata=metadata, configs={}, error_message=unknown_topic(name).message)
    configs = {key: value for key, value in topic.configs.items() if not wanted or key in wanted}
    return TopicDescription(topic=name, metadata=metadata, configs=configs)


def described(
    image: MetadataImage, name: str, *, with_partitions: bool = True, first: int = 0, count_max: int | None = None
) -> DescribeTopicPartitionsResponseTopic:
    """Return the topic with its partitions from `first` on, or none, or the error of one that does not exist."""
    topic = image.topic(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=unknown_topic(name).error_code if topic is None else ErrorCode.NONE,
        name=name,
        topic_id=ZERO_UUID if topic is None else topic.topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=_partitions(image, topic, first, count_max) if topic is not None and with_partitions else (),
        topic_authorized_operations=ON_TOPIC,
    )


def _partitions(
    image: MetadataImage, topic: TopicImage, first: int, count_max: int | None
) -> tuple[DescribeTopicPartitionsResponsePartition, ...]:
    numbers = sorted(number for number in topic.partitions if number >= first)
    return tuple(_partition(image, topic.partitions[number]) for number in numbers[:count_max])


def _partition(image: MetadataImage, state: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if state.has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=state.partition,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=tuple(state.replicas),
        isr_nodes=tuple(state.isr),
        eligible_leader_replicas=tuple(state.elr),
        last_known_elr=tuple(state.last_known_elr),
        offline_replicas=tuple(broker_id for broker_id in state.replicas if not image.is_alive(broker_id)),
    )
