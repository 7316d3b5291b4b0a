"""DescribeTopicPartitions: topics described in pages. Source: KIP-966."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.metadata import TopicMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlace:
    """Place in the order of topics and partitions; the partition need not exist."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPageRequest:
    """Request for a page of these topics; without names, of every topic. `begin` is `following` of the page before."""

    topics: list[str]
    partitions_max: int
    begin: PartitionPlace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """Page of topics, by name, with the partitions that fit. `following` begins the next page; None at the end."""

    topics: list[TopicMetadata]
    following: PartitionPlace | None = None
