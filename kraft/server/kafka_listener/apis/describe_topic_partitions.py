"""DescribeTopicPartitions: page through topics' metadata, with eligible leader replicas (KIP-966)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.metadata.topic_names import INTERNAL_TOPICS
from kraft.model import describe_topic_partitions as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.metadata import PartitionMetadata, TopicMetadata
from kraft.server.handlers.authorized_operations import ON_TOPIC
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

Handle = Callable[[values.TopicPageRequest], values.TopicPage]

PARTITIONS_MAX: Final = 2_000
"""Maximum number of partitions in one response: Kafka's default max.request.partition.size.limit."""


class DescribeTopicPartitionsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __call__(
        self, request: DescribeTopicPartitionsRequest, call: RequestContext
    ) -> DescribeTopicPartitionsResponse:
        names = [topic.name for topic in request.topics]
        partitions_max = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
        try:
            page = self._handle(
                values.TopicPageRequest(topics=names, partitions_max=partitions_max, begin=_place(request.cursor))
            )
        except Refusal as refusal:
            return DescribeTopicPartitionsResponse(topics=tuple(_refused(name, refusal) for name in names))
        return DescribeTopicPartitionsResponse(
            topics=tuple(map(_topic, page.topics)), next_cursor=_cursor(page.following)
        )


def _place(cursor: Cursor | None) -> values.PartitionPlace | None:
    if cursor is None:
        return None
    return values.PartitionPlace(topic=cursor.topic_name, partition=cursor.partition_index)


def _cursor(place: values.PartitionPlace | None) -> Cursor | None:
    if place is None:
        return None
    return Cursor(topic_name=place.topic, partition_index=place.partition)


def _topic(topic: TopicMetadata) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=topic.error_code,
        name=topic.topic,
        topic_id=topic.topic_id,
        is_internal=topic.topic in INTERNAL_TOPICS,
        partitions=tuple(map(_partition, topic.partitions)),
        topic_authorized_operations=ON_TOPIC,
    )


def _partition(partition: PartitionMetadata) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if partition.leader_id >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.partition,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=tuple(partition.replicas),
        isr_nodes=tuple(partition.isr),
        eligible_leader_replicas=tuple(partition.elr),
        last_known_elr=tuple(partition.last_known_elr),
        offline_replicas=tuple(partition.offline_replicas),
    )


def _refused(name: str, refusal: Refusal) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=refusal.error_code, name=name, topic_id=ZERO_UUID, partitions=()
    )
