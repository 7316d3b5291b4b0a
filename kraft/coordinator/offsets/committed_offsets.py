"""The offsets of all groups of one shard: the replay of its OffsetCommit records and of the markers of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kraft.coordinator.group_records import OffsetCommitKey, OffsetCommitValue
from kraft.coordinator.offsets.committed_offset import CommittedOffset, committed_offset
from kraft.coordinator.offsets.group_topic_partition import GroupTopicPartition, with_items
from kraft.coordinator.offsets.pending_offsets import NO_PENDING_OFFSETS, PendingOffsets
from kraft.metadata.persistent_maps import PersistentMap

PartitionOffsets = PersistentMap[int, CommittedOffset]
TopicOffsets = PersistentMap[str, PartitionOffsets]

_NO_PARTITIONS: Final[PartitionOffsets] = PersistentMap()
_NO_TOPICS: Final[TopicOffsets] = PersistentMap()


class CommittedOffsets(Struct, frozen=True):
    """Offsets by group, topic and partition. A group or topic without offsets is not in it."""

    groups: PersistentMap[str, TopicOffsets] = PersistentMap()
    pending: PendingOffsets = NO_PENDING_OFFSETS
    """Offsets of transactions that have not ended. A group may have nothing else."""

    def topics(self, group: str) -> TopicOffsets:
        """Return the group's offsets by topic and partition; empty for a group without any."""
        return self.groups.get(group, _NO_TOPICS)

    def offset(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.of_topic(group, topic).get(partition)

    def of_topic(self, group: str, topic: str) -> PartitionOffsets:
        """Return the group's offsets by partition; empty for a topic without any."""
        return self.topics(group).get(topic, _NO_PARTITIONS)

    def partitions(self, group: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Yield all offsets of the group, ordered by topic and partition."""
        topics = self.topics(group)
        for topic in sorted(topics):
            for partition in sorted(topics[topic]):
                yield topic, partition, topics[topic][partition]

    def count(self, group: str) -> int:
        """Return how many partitions the group has committed offsets of."""
        return sum(map(len, self.topics(group).values()))

    # --- with those of open transactions -----------------------------------------------------------------------------

    def has_group(self, group: str) -> bool:
        """Return whether the group has offsets, committed or pending."""
        return group in self.groups or group in self.pending.groups

    def all_groups(self) -> Iterator[str]:
        """Yield every group that has offsets, committed or pending, once."""
        yield from self.groups
        yield from (group for group in self.pending.groups if group not in self.groups)

    def all_partitions(self, group: str) -> Iterator[tuple[str, int]]:
        """Yield the partitions of which the group has an offset, committed or pending, each once."""
        for topic, partition, _ in self.partitions(group):
            yield topic, partition
        for topic, partition in self.pending.partitions(group):
            if self.offset(group, topic, partition) is None:
                yield topic, partition

    def known(self, topic_partition: GroupTopicPartition) -> Iterator[CommittedOffset]:
        """Yield the offset of a partition, and those that may follow it when transactions end."""
        if (committed := self.offset(*topic_partition)) is not None:
            yield committed
        yield from (pending.offset for pending in self.pending.of(*topic_partition) if pending.offset is not None)

    # --- replay ------------------------------------------------------------------------------------------------------

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> CommittedOffsets:
        """Return the offsets after one record. A tombstone of an offset that is not there changes nothing."""
        topic_partition = GroupTopicPartition(key.group, key.topic, key.partition)
        pending = self.pending.deleted(topic_partition) if value is None else self.pending.overtaken(topic_partition)
        if value is None and self.offset(*topic_partition) is None:
            return self if pending is self.pending else CommittedOffsets(self.groups, pending)
        offset = None if value is None else committed_offset(value)
        return CommittedOffsets(with_items(self.groups, {topic_partition: offset}), pending)

    def replay_transactional(
        self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue
    ) -> CommittedOffsets:
        """Return the offsets after one record of a producer's transaction."""
        topic_partition = GroupTopicPartition(key.group, key.topic, key.partition)
        return CommittedOffsets(self.groups, self.pending.added(topic_partition, producer_id, committed_offset(value)))

    def replay_end_transaction(self, producer_id: int, is_commit: bool) -> CommittedOffsets:
        """Return the offsets after the marker that ends the producer's transaction."""
        if producer_id not in self.pending.producers:
            return self
        committed = self.pending.not_overtaken(producer_id) if is_commit else {}
        return CommittedOffsets(with_items(self.groups, committed), self.pending.ended(producer_id, is_commit))


NO_OFFSETS: Final = CommittedOffsets()
