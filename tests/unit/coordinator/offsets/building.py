"""States of committed offsets for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from uuid import UUID

from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import OffsetCommitKey, OffsetCommitValue
from kraft.coordinator.offsets.commit import NO_RETENTION_TIME, commit
from kraft.coordinator.offsets.committed_offset import CommittedOffset
from kraft.coordinator.offsets.committed_offsets import NO_OFFSETS, CommittedOffsets
from kraft.model.ids import TopicId
from kraft.wire.schema.offset_commit import OffsetCommitRequestPartition
from tests.support import offset_commands

ORDERS, ORDERS_AGAIN = TopicId(UUID(int=1)), TopicId(UUID(int=2))
METADATA_MAX = 10


def replayed(records: Iterable[GroupRecord], offsets: CommittedOffsets = NO_OFFSETS) -> CommittedOffsets:
    return reduce(_replayed, records, offsets)


def _replayed(offsets: CommittedOffsets, record: GroupRecord) -> CommittedOffsets:
    assert isinstance(record.key, OffsetCommitKey)
    assert record.value is None or isinstance(record.value, OffsetCommitValue)
    return offsets.replay(record.key, record.value)


def committing(
    partition: int = 0, offset: int = 5, leader_epoch: int = -1, metadata: str | None = None
) -> OffsetCommitRequestPartition:
    return offset_commands.offset(partition, offset, leader_epoch=leader_epoch, metadata=metadata)


def with_commit(
    offsets: CommittedOffsets,
    group: str,
    topic: str,
    *partitions: int,
    now_ms: int = 1000,
    retention_time_ms: int = NO_RETENTION_TIME,
    topic_id: TopicId | None = None,
) -> CommittedOffsets:
    """The offsets after the group has committed offset 5 of these partitions."""
    topics = [offset_commands.offsets(topic, *map(committing, partitions), topic_id=topic_id)]
    decided = commit(
        group, topics, now_ms=now_ms, metadata_length_max=METADATA_MAX, retention_time_ms=retention_time_ms
    )
    return replayed(decided.records, offsets)


def places(records: Iterable[GroupRecord]) -> list[tuple[str, str, int]]:
    """Group, topic and partition of tombstones."""
    found = []
    for record in records:
        assert isinstance(record.key, OffsetCommitKey)
        assert record.value is None, "not a tombstone"
        found.append((record.key.group, record.key.topic, record.key.partition))
    return found


def contents(offsets: CommittedOffsets) -> dict[tuple[str, str, int], CommittedOffset]:
    return {
        (group, topic, partition): committed
        for group in offsets.groups
        for topic, partition, committed in offsets.partitions(group)
    }
