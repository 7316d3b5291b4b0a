"""DescribeTopicPartitions: topics described in pages. Source: KIP-966."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.metadata import TopicMetadata


class PartitionPlace(Struct, frozen=True, kw_only=True):
    """Place in the order of topics and partitions; the partition need not exist."""

    topic: str
    partition: int


class TopicPageRequest(Struct, frozen=True, kw_only=True):
    """Request for a page of these topics; without names, of every topic. `begin` is `following` of the page before."""

    topics: list[str]
    partitions_max: int
    begin: PartitionPlace | None = None


class TopicPage(Struct, frozen=True, kw_only=True):
    """Page of topics, by name, with the partitions that fit. `following` begins the next page; None at the end."""

    topics: list[TopicMetadata]
    following: PartitionPlace | None = None
