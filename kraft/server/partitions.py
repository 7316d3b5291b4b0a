"""The replicas on this broker, by topic id and by name."""

from __future__ import annotations

from collections.abc import Iterator

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_BROKER, NO_LEADER_EPOCH, BrokerId, LeaderEpoch, TopicId, TopicPartition
from kraft.server.partition import Partition


class Partitions:
    def __init__(self) -> None:
        self._by_id: dict[tuple[TopicId, int], Partition] = {}
        self._by_name: dict[TopicPartition, Partition] = {}

    def add(self, partition: Partition) -> None:
        assert partition.topic_partition not in self._by_name, f"{partition.topic_partition} is held already"
        self._by_id[partition.topic_id, partition.topic_partition.partition] = partition
        self._by_name[partition.topic_partition] = partition

    def remove(self, partition: Partition) -> None:
        del self._by_id[partition.topic_id, partition.topic_partition.partition]
        del self._by_name[partition.topic_partition]

    def find(self, topic_id: TopicId, partition: int) -> Partition | None:
        return self._by_id.get((topic_id, partition))

    def by_id(self, topic_id: TopicId, partition: int) -> Partition:
        """Raises Refusal UNKNOWN_TOPIC_ID."""
        found = self.find(topic_id, partition)
        if found is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"this broker does not hold partition {partition} of {topic_id}")
        return found

    def by_name(self, topic: str, partition: int) -> Partition:
        """Raises Refusal NOT_LEADER_OR_FOLLOWER for one that is not held here."""
        found = self.find_by_name(topic, partition)
        if found is None:
            raise Refusal(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not hold partition {partition} of '{topic}'"
            )
        return found

    def find_by_name(self, topic: str, partition: int) -> Partition | None:
        return self._by_name.get(TopicPartition(topic, partition))

    def leader_hint(self, topic: str, partition: int) -> tuple[BrokerId, LeaderEpoch]:
        """Who leads, as far as a replica here knows; both are -1 otherwise."""
        found = self.find_by_name(topic, partition)
        return (NO_BROKER, NO_LEADER_EPOCH) if found is None else (found.leader_id, found.leader_epoch)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)
