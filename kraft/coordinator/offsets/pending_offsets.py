"""Offsets of transactions that have not ended, of all groups of one shard.

A transaction's offset of a partition waits for the marker of its transaction. If the marker commits, the offset counts
from the place of its record in the log, not from that of the marker: a commit whose record is later overtakes it.
Compaction keeps the later record, too, so the replay of a compacted log has the same result. An offset that was
overtaken still waits for its marker, and consumers that ask for stable offsets wait with it. A tombstone deletes all
pending offsets of its partition. Source: Kafka's OffsetMetadataManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from kraft.coordinator.offsets.committed_offset import CommittedOffset
from kraft.coordinator.offsets.group_topic_partition import ByGroupTopicPartition, GroupTopicPartition, with_items
from kraft.metadata.persistent_maps import PersistentMap


class PendingOffset(NamedTuple):
    """Offset of one partition that a producer's open transaction commits, if it is committed."""

    producer_id: int
    offset: CommittedOffset | None
    """None if a later commit has overtaken it."""


Waiting: TypeAlias = tuple[PendingOffset, ...]
"""Pending offsets of one partition, at most one of each producer, in the order of their records in the log."""

_OfProducer: TypeAlias = PersistentMap[GroupTopicPartition, bool]

_NO_PARTITIONS: Final[PersistentMap[int, Waiting]] = PersistentMap()
_NO_TOPICS: Final[PersistentMap[str, PersistentMap[int, Waiting]]] = PersistentMap()
_OF_NO_PRODUCER: Final[_OfProducer] = PersistentMap()


class PendingOffsets(Struct, frozen=True):
    """Pending offsets by group, topic and partition. A group or topic without any is not in it."""

    groups: ByGroupTopicPartition[Waiting] = PersistentMap()
    producers: PersistentMap[int, _OfProducer] = PersistentMap()
    """Where each producer has a pending offset."""

    def of(self, group: str, topic: str, partition: int) -> Waiting:
        """Return the pending offsets of a partition; nearly always none or one."""
        return self.topics(group).get(topic, _NO_PARTITIONS).get(partition, ())

    def topics(self, group: str) -> PersistentMap[str, PersistentMap[int, Waiting]]:
        """Return the group's pending offsets by topic and partition; empty for a group without any."""
        return self.groups.get(group, _NO_TOPICS)

    def partitions(self, group: str) -> Iterator[tuple[str, int]]:
        """Yield the partitions of which the group has pending offsets, ordered by topic and partition."""
        topics = self.topics(group)
        for topic in sorted(topics):
            for partition in sorted(topics[topic]):
                yield topic, partition

    def not_overtaken(self, producer_id: int) -> dict[GroupTopicPartition, CommittedOffset]:
        """Return the offsets that count if the producer's transaction is committed now."""
        return {
            topic_partition: pending.offset
            for topic_partition in self.producers.get(producer_id, _OF_NO_PRODUCER)
            for pending in self.of(*topic_partition)
            if pending.producer_id == producer_id and pending.offset is not None
        }

    # --- replay ------------------------------------------------------------------------------------------------------

    def added(self, topic_partition: GroupTopicPartition, producer_id: int, offset: CommittedOffset) -> PendingOffsets:
        """Return the state after a record of a producer's transaction. It replaces the producer's earlier one."""
        others = tuple(each for each in self.of(*topic_partition) if each.producer_id != producer_id)
        topic_partitions = self.producers.get(producer_id, _OF_NO_PRODUCER).with_changes({topic_partition: True})
        return PendingOffsets(
            with_items(self.groups, {topic_partition: (*others, PendingOffset(producer_id, offset))}),
            self.producers.with_changes({producer_id: topic_partitions}),
        )

    def overtaken(self, topic_partition: GroupTopicPartition) -> PendingOffsets:
        """Return the state after a later commit of the partition's offset."""
        waiting = self.of(*topic_partition)
        if not waiting:
            return self
        return PendingOffsets(with_items(self.groups, {topic_partition: _overtaken(waiting)}), self.producers)

    def deleted(self, topic_partition: GroupTopicPartition) -> PendingOffsets:
        """Return the state after a tombstone of the partition's offset."""
        waiting = self.of(*topic_partition)
        if not waiting:
            return self
        without = {
            each.producer_id: self.producers[each.producer_id].with_changes({topic_partition: None}) or None
            for each in waiting
        }
        return PendingOffsets(with_items(self.groups, {topic_partition: None}), self.producers.with_changes(without))

    def ended(self, producer_id: int, is_commit: bool) -> PendingOffsets:
        """Return the state after the marker that ends the producer's transaction."""
        waiting = {
            topic_partition: _ended(self.of(*topic_partition), producer_id, is_commit) or None
            for topic_partition in self.producers.get(producer_id, _OF_NO_PRODUCER)
        }
        return PendingOffsets(with_items(self.groups, waiting), self.producers.with_changes({producer_id: None}))


NO_PENDING_OFFSETS: Final = PendingOffsets()


def _overtaken(waiting: Waiting) -> Waiting:
    return tuple(PendingOffset(each.producer_id, None) for each in waiting)


def _ended(waiting: Waiting, producer_id: int, is_commit: bool) -> Waiting:
    """Return what still waits after a marker. An offset that is committed overtakes the earlier ones of others."""
    index = next(index for index, each in enumerate(waiting) if each.producer_id == producer_id)
    earlier, later = waiting[:index], waiting[index + 1 :]
    is_committed = is_commit and waiting[index].offset is not None
    return (*(_overtaken(earlier) if is_committed else earlier), *later)
