"""DescribeTopics: topics with their partitions and the configs set on them."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from kraft.metadata import topic_names
from kraft.metadata.image import MetadataImage, PartitionImage, TopicImage
from kraft.model.errors import ErrorCode
from kraft.model.metadata import PartitionMetadata, TopicMetadata
from kraft.model.topics import DescribeTopicsRequest, DescribeTopicsResponse, TopicDescription
from kraft.server.loop.turns import Turns

NO_TOPIC_ID = UUID(int=0)


PARTITIONS_AT_ONCE: Final = 500
"""Partitions that are described before other tasks have their turn: there may be 50,000."""


async def describe_topics(image: MetadataImage, request: DescribeTopicsRequest) -> DescribeTopicsResponse:
    """Describe the topics. One that is named twice is described once."""
    names = list(dict.fromkeys(request.topics)) or sorted(image.topic_ids)
    turns, topics = Turns(PARTITIONS_AT_ONCE), []
    for name in names:
        topics.append(_describe(image, name))
        await turns.done(1 + len(topics[-1].metadata.partitions))
    return DescribeTopicsResponse(topics=topics)


def _describe(image: MetadataImage, name: str) -> TopicDescription:
    topic = image.topic(name)
    if topic is None:
        return TopicDescription(metadata=unknown_topic(name), configs={})
    return TopicDescription(metadata=topic_metadata(image, topic), configs=dict(topic.configs))


def unknown_topic(name: str) -> TopicMetadata:
    refusal = topic_names.unknown_topic(name)
    return TopicMetadata(
        error_code=refusal.error_code,
        error_message=refusal.message,
        topic=name,
        topic_id=NO_TOPIC_ID,
        partitions=[],
    )


def topic_metadata(image: MetadataImage, topic: TopicImage) -> TopicMetadata:
    partitions = [_partition(image, topic.partitions[number]) for number in sorted(topic.partitions)]
    return TopicMetadata(error_code=ErrorCode.NONE, topic=topic.topic, topic_id=topic.topic_id, partitions=partitions)


def _partition(image: MetadataImage, state: PartitionImage) -> PartitionMetadata:
    return PartitionMetadata(
        partition=state.partition,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replicas=list(state.replicas),
        isr=list(state.isr),
        offline_replicas=[broker_id for broker_id in state.replicas if not image.is_alive(broker_id)],
        elr=list(state.elr),
        last_known_elr=list(state.last_known_elr),
    )
