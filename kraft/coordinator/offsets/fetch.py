"""OffsetFetch: the committed offsets of one group."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from kraft.coordinator.offsets.committed_offsets import CommittedOffset, CommittedOffsets
from kraft.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId

NO_OFFSET = Offset(-1)
"""In a response: the group has not committed an offset of the partition."""


class FetchTopic(Struct, frozen=True, kw_only=True):
    """Partitions of one topic whose offsets are asked for."""

    name: str
    topic_id: TopicId | None = None
    """None in requests that name topics."""

    partitions: tuple[int, ...]


class FetchedPartition(Struct, frozen=True, kw_only=True):
    """Committed offset of one partition; the defaults say that there is none."""

    partition: int
    offset: Offset = NO_OFFSET
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str = ""


class FetchedTopic(Struct, frozen=True, kw_only=True):
    """Committed offsets of one topic."""

    name: str
    topic_id: TopicId | None = None
    partitions: tuple[FetchedPartition, ...]


def fetch(offsets: CommittedOffsets, group: str, topics: Sequence[FetchTopic] | None) -> tuple[FetchedTopic, ...]:
    """Return the group's offsets of these partitions in the order of the request, or with None all that it has.

    An offset of another topic id than the one asked for is that of a deleted topic with the same name, so it counts as
    missing. If one of the ids is not known, only the name counts. `offsets` are the committed ones, without decisions
    whose records are not committed yet.
    """
    if topics is None:
        return _fetch_all(offsets, group)
    return tuple(
        FetchedTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                _fetched(partition, offsets.offset(group, topic.name, partition), topic.topic_id)
                for partition in topic.partitions
            ),
        )
        for topic in topics
    )


def _fetch_all(offsets: CommittedOffsets, group: str) -> tuple[FetchedTopic, ...]:
    topics: dict[str, list[FetchedPartition]] = {}
    for topic, partition, committed in offsets.partitions(group):
        topics.setdefault(topic, []).append(_fetched(partition, committed, None))
    return tuple(FetchedTopic(name=topic, partitions=tuple(partitions)) for topic, partitions in topics.items())


def _fetched(partition: int, committed: CommittedOffset | None, topic_id: TopicId | None) -> FetchedPartition:
    if committed is None or _is_of_another_topic(committed, topic_id):
        return FetchedPartition(partition=partition)
    return FetchedPartition(
        partition=partition,
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _is_of_another_topic(committed: CommittedOffset, topic_id: TopicId | None) -> bool:
    return committed.topic_id is not None and topic_id is not None and committed.topic_id != topic_id
