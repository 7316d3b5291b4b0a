"""Topics described page by page, as values. Source: KIP-966 (DescribeTopicPartitions)."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.metadata import TopicMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlace:
    """A partition, whether it exists or not, as a place in the order of topics and partitions."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPageRequest:
    """No names: every topic. `begin` is where an earlier page said that the next one begins."""

    topics: list[str]
    partitions_max: int
    begin: PartitionPlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """Topics by name, with the partitions that found room; `following` is None when nothing is left."""

    topics: list[TopicMetadata]
    following: PartitionPlace | None = None
