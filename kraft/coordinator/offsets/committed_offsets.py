"""The committed offsets of all groups of one shard: the replay of its OffsetCommit records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kraft.coordinator.group_records import OffsetCommitKey, OffsetCommitValue
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId
from kraft.wire.declaration import ZERO_UUID

NO_EXPIRE_TIMESTAMP: Final = -1
"""In a record: the offset has no expire timestamp of its own."""


class CommittedOffset(Struct, frozen=True, kw_only=True):
    """The next offset that a group reads from a partition, as it was committed."""

    offset: Offset
    """Not checked, as in Kafka: a negative one is stored and returned like any other."""

    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    """Epoch of the last record that was read; -1 if the client did not send it."""

    metadata: str = ""
    """The client's own text."""

    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """When the offset expires, if the client sent a retention time. Only clients before Kafka 2.1 do (KIP-211)."""

    topic_id: TopicId | None = None
    """None if the client committed by name."""


PartitionOffsets = PersistentMap[int, CommittedOffset]
TopicOffsets = PersistentMap[str, PartitionOffsets]

_NO_PARTITIONS: Final[PartitionOffsets] = PersistentMap()
_NO_TOPICS: Final[TopicOffsets] = PersistentMap()


class CommittedOffsets(Struct, frozen=True):
    """Offsets by group, topic and partition. A group or topic without offsets is not in it."""

    groups: PersistentMap[str, TopicOffsets] = PersistentMap()

    def topics(self, group: str) -> TopicOffsets:
        """Return the group's offsets by topic and partition; empty for a group without any."""
        return self.groups.get(group, _NO_TOPICS)

    def offset(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.topics(group).get(topic, _NO_PARTITIONS).get(partition)

    def partitions(self, group: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Yield all offsets of the group, ordered by topic and partition."""
        topics = self.topics(group)
        for topic in sorted(topics):
            for partition in sorted(topics[topic]):
                yield topic, partition, topics[topic][partition]

    def count(self, group: str) -> int:
        """Return how many partitions the group has committed offsets of."""
        return sum(map(len, self.topics(group).values()))

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> CommittedOffsets:
        """Return the offsets after one record. A tombstone of an offset that is not there changes nothing."""
        topics = self.topics(key.group)
        partitions = topics.get(key.topic, _NO_PARTITIONS)
        if value is None and key.partition not in partitions:
            return self
        partitions = partitions.with_changes({key.partition: None if value is None else _committed_offset(value)})
        topics = topics.with_changes({key.topic: partitions or None})
        return CommittedOffsets(self.groups.with_changes({key.group: topics or None}))


NO_OFFSETS: Final = CommittedOffsets()


def _committed_offset(value: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        offset=Offset(value.offset),
        leader_epoch=LeaderEpoch(value.leader_epoch),
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=None if value.expire_timestamp == NO_EXPIRE_TIMESTAMP else value.expire_timestamp,
        topic_id=None if value.topic_id == ZERO_UUID else TopicId(value.topic_id),
    )
