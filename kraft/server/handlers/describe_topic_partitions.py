"""DescribeTopicPartitions: topics with their partitions, page by page.

Source: KIP-966.
"""

from __future__ import annotations

from msgspec.structs import replace

from kraft.metadata.image import MetadataImage
from kraft.model.describe_topic_partitions import PartitionPlace, TopicPage, TopicPageRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.metadata import TopicMetadata
from kraft.server.handlers.describe_topics import topic_metadata, unknown_topic


def describe_topic_partitions(image: MetadataImage, request: TopicPageRequest) -> TopicPage:
    """Return one page of topics and the place where the next one begins.

    Topics may be created or deleted between two pages: each page shows the current ones from its beginning on. Raises
    Refusal INVALID_REQUEST.
    """
    begin = request.begin or PartitionPlace(topic="", partition=0)
    if begin.partition < 0:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"cursor partition is {begin.partition}: must be at least 0")
    names = [name for name in sorted(set(request.topics) or image.topic_ids) if name >= begin.topic]
    topics: list[TopicMetadata] = []
    left = request.partitions_max
    for name in names:
        if left <= 0:
            return TopicPage(topics=topics, following=PartitionPlace(topic=name, partition=0))
        first = begin.partition if name == begin.topic else 0
        described = _described(image, name)
        rest = [partition for partition in described.partitions if partition.partition >= first]
        topics.append(replace(described, partitions=rest[:left]))
        if len(rest) > left:
            return TopicPage(topics=topics, following=PartitionPlace(topic=name, partition=rest[left].partition))
        # An unknown topic counts, too: a request may name 16,000 of them.
        left -= max(len(rest), 1)
    return TopicPage(topics=topics)


def _described(image: MetadataImage, name: str) -> TopicMetadata:
    topic = image.topic(name)
    return unknown_topic(name) if topic is None else topic_metadata(image, topic)
