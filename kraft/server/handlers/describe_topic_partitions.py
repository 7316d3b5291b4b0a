"""DescribeTopicPartitions: topics with their partitions and eligible leader replicas, page by page (KIP-966)."""

from __future__ import annotations

from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers.describe_topics import described
from kraft.wire.declaration import ZERO_UUID, replace
from kraft.wire.schema.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)

PARTITIONS_MAX: Final = 2_000
"""Maximum number of partitions in one response: Kafka's default max.request.partition.size.limit."""


def describe_topic_partitions(
    image: MetadataImage, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return one page of topics, of all if the request names none, and the place where the next one begins.

    Topics may be created or deleted between two pages: each page shows the current ones from its beginning on. Raises
    Refusal INVALID_REQUEST.
    """
    begin = request.cursor or Cursor(topic_name="", partition_index=0)
    if begin.partition_index < 0:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"cursor partition is {begin.partition_index}: must be at least 0")
    asked = {topic.name for topic in request.topics}
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    left = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    for name in (name for name in sorted(asked or image.topic_ids) if name >= begin.topic_name):
        if left <= 0:
            return _page(topics, Cursor(topic_name=name, partition_index=0))
        first = begin.partition_index if name == begin.topic_name else 0
        # One more than there is room for, where the next page begins.
        topic = described(image, name, first=first, count_max=left + 1)
        rest = topic.partitions
        topics.append(replace(topic, partitions=rest[:left]))
        if len(rest) > left:
            return _page(topics, Cursor(topic_name=name, partition_index=rest[left].partition_index))
        # An unknown topic counts, too: a request may name 16,000 of them.
        left -= max(len(rest), 1)
    return _page(topics, None)


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], following: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=following)


def refused(request: DescribeTopicPartitionsRequest, refusal: Refusal) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=tuple(
            DescribeTopicPartitionsResponseTopic(
                error_code=refusal.error_code, name=topic.name, topic_id=ZERO_UUID, partitions=()
            )
            for topic in request.topics
        )
    )
