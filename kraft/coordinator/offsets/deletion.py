"""Deletion of committed offsets: by a client, with their group, or because their topic was deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.offsets.committed_offsets import CommittedOffsets
from kraft.coordinator.offsets.decided_offsets import DecidedOffsets
from kraft.coordinator.offsets.found_topic import FoundTopic
from kraft.coordinator.offsets.group_facts import GroupFacts
from kraft.coordinator.offsets.group_topic_partition import GroupTopicPartition
from kraft.coordinator.offsets.tombstones import Tombstones, tombstone, tombstones_that_fit
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId
from kraft.wire.schema.offset_delete import OffsetDeleteRequestPartition


def delete(
    offsets: CommittedOffsets, group: str, facts: GroupFacts, topics: Sequence[FoundTopic[OffsetDeleteRequestPartition]]
) -> DecidedOffsets:
    """OffsetDelete: delete the group's offsets of these partitions, and those of open transactions.

    A missing one is no error, and writes no record.

    Offsets of topics to which the group is subscribed are refused with GROUP_SUBSCRIBED_TO_TOPIC. The group has checked
    that it may be changed at all: a classic group with members of another protocol type than `consumer` may not
    (NON_EMPTY_GROUP).
    """
    records: list[GroupRecord] = []
    codes: list[ErrorCode] = []
    for topic in topics:
        subscribed = facts.is_subscribed_to(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        codes += [code] * len(topic.partitions)
        if not subscribed:
            records += (
                tombstone(group, topic.name, partition)
                for partition in (each.partition_index for each in topic.partitions)
                if offsets.offset(group, topic.name, partition) is not None
                or offsets.pending.of(group, topic.name, partition)
            )
    return DecidedOffsets(records=tuple(records), codes=tuple(codes))


def delete_group(offsets: CommittedOffsets, group: str) -> Tombstones:
    """DeleteGroups: delete the group's offsets, and those of open transactions.

    The last of them go together with the group's own tombstones.
    """
    return tombstones_that_fit(group, offsets.all_partitions(group))


def on_topics_deleted(
    offsets: CommittedOffsets, group_ids: Iterable[str], topics: Mapping[str, TopicId]
) -> Iterator[Tombstones]:
    """Delete the offsets of deleted topics, given by name and id, in these groups, with one result for each group.

    An offset with another topic id is kept: it was committed after the topic had been created again. One that was
    committed by name has no id, and is deleted. So are those of open transactions. A tombstone deletes all offsets of a
    partition, so it is written only if none of them is kept.

    A result is decided when it is read. One that is read after other changes would be decided on an old state; a caller
    that decides something else in between gives a few groups at a time, each time with the current offsets.
    """
    for group in group_ids:
        yield tombstones_that_fit(group, _of_deleted_topics(offsets, group, topics))


def _of_deleted_topics(
    offsets: CommittedOffsets, group: str, deleted: Mapping[str, TopicId]
) -> Iterator[tuple[str, int]]:
    topics, pending = offsets.topics(group), offsets.pending.topics(group)
    for topic in sorted(each for each in _fewer(topics, pending, deleted) if each in topics or each in pending):
        for partition in sorted({*topics.get(topic, ()), *pending.get(topic, ())}):
            known = offsets.known(GroupTopicPartition(group, topic, partition))
            if all(each.topic_id in (None, deleted[topic]) for each in known):
                yield topic, partition


def _fewer(topics: Collection[str], pending: Collection[str], deleted: Collection[str]) -> Iterable[str]:
    """Return the deleted topics of which a group may have offsets, with a look at the smaller side only."""
    if len(topics) + len(pending) < len(deleted):
        return {topic for topic in (*topics, *pending) if topic in deleted}
    return deleted
