"""Deletion of committed offsets: by a client, with their group, or because their topic was deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.offsets.committed_offsets import CommittedOffsets
from kraft.coordinator.offsets.decided_offsets import DecidedOffsets, PartitionResult, TopicResult
from kraft.coordinator.offsets.group_facts import GroupFacts
from kraft.coordinator.offsets.tombstones import Tombstones, tombstone, tombstones_that_fit
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId


class DeleteTopic(Struct, frozen=True):
    """Partitions of one topic whose offsets are to be deleted."""

    name: str
    partitions: tuple[int, ...]


def delete(offsets: CommittedOffsets, group: str, facts: GroupFacts, topics: Sequence[DeleteTopic]) -> DecidedOffsets:
    """OffsetDelete: delete the group's offsets of these partitions. A missing one is no error, and writes no record.

    Offsets of topics to which the group is subscribed are refused with GROUP_SUBSCRIBED_TO_TOPIC. The group has checked
    that it may be changed at all: a classic group with members of another protocol type than `consumer` may not
    (NON_EMPTY_GROUP).
    """
    records: list[GroupRecord] = []
    results: list[TopicResult] = []
    for topic in topics:
        subscribed = facts.is_subscribed_to(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        results.append(
            TopicResult(name=topic.name, partitions=tuple(PartitionResult(each, code) for each in topic.partitions))
        )
        if not subscribed:
            records += (
                tombstone(group, topic.name, partition)
                for partition in topic.partitions
                if offsets.offset(group, topic.name, partition) is not None
            )
    return DecidedOffsets(records=tuple(records), topics=tuple(results))


def delete_group(offsets: CommittedOffsets, group: str) -> tuple[GroupRecord, ...]:
    """DeleteGroups: delete all offsets of the group. They are appended together with the group's own tombstones."""
    return tuple(tombstone(group, topic, partition) for topic, partition, _ in offsets.partitions(group))


def on_topics_deleted(
    offsets: CommittedOffsets, group_ids: Iterable[str], topics: Mapping[str, TopicId]
) -> Iterator[Tombstones]:
    """Delete the offsets of deleted topics, given by name and id, in these groups, with one result for each group.

    An offset with another topic id is kept: it was committed after the topic had been created again. One that was
    committed by name has no id, and is deleted.

    A result is decided when it is read. One that is read after other changes would be decided on an old state; a caller
    that decides something else in between gives a few groups at a time, each time with the current offsets.
    """
    for group in group_ids:
        yield tombstones_that_fit(group, _of_deleted_topics(offsets, group, topics))


def _of_deleted_topics(
    offsets: CommittedOffsets, group: str, deleted: Mapping[str, TopicId]
) -> Iterator[tuple[str, int]]:
    topics = offsets.topics(group)
    fewer, others = (topics, deleted) if len(topics) < len(deleted) else (deleted, topics)
    for topic in sorted(name for name in fewer if name in others):
        for partition in sorted(topics[topic]):
            if topics[topic][partition].topic_id in (None, deleted[topic]):
                yield topic, partition
