"""DescribeTopics: topics with their partitions and the configs set on them. Kafka has no such request."""

from __future__ import annotations

from msgspec import Struct

from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponseTopic


class DescribeTopicsRequest(Struct, frozen=True, kw_only=True):
    """Request to describe these topics; without names, every topic."""

    topics: list[str]
    config_names: list[str] = []
    """Of the configs that are set on them, those that are wanted; all if none is named."""

    without_partitions: bool = False
    """Whether only the configs are wanted: partitions are most of the response."""


class TopicDescription(Struct, frozen=True, kw_only=True):
    """Description of a topic. `configs` holds only the values set on the topic itself."""

    topic: str
    metadata: DescribeTopicPartitionsResponseTopic
    configs: dict[str, str]
    error_message: str = ""


class DescribeTopicsResponse(Struct, frozen=True, kw_only=True):
    topics: list[TopicDescription]
