"""The replicas on this broker, by topic id and by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum, auto

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import (
    NO_BROKER,
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicIdPartition,
    TopicPartition,
)
from kraft.server.replica.partition import Partition


class Damage(Enum):
    CORRUPT = auto()
    """Its bytes are not what was written. They are kept."""
    MISSING = auto()
    """It was here before, and its directory is gone."""
    OUT_OF_REACH = auto()
    """Its log directory has failed, or it may lie in one that could not be used at the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineReplica:
    """A replica that is assigned to this broker and that it cannot serve.

    `leader_epoch` is the last one in which this process used it, -1 when it never did. `log_directory` is None where
    that is not known.
    """

    topic_partition: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch
    damage: Damage
    reason: str
    log_directory: str | None
    high_watermark: Offset
    files_in_use: AbstractContextManager[object] = field(default_factory=nullcontext, repr=False, compare=False)
    """As the partition's: to be held by a thread that takes its directory away."""

    @property
    def id(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.topic_partition.partition)


class Partitions:
    """A replica is held open or offline; `find` and iteration give those that are open."""

    def __init__(self, exists: Callable[[TopicPartition], bool] = lambda _: True) -> None:
        """`exists` is the metadata's word: what is not held here may be held elsewhere, or be nowhere."""
        self._exists = exists
        self._by_id: dict[TopicIdPartition, Partition] = {}
        self._by_name: dict[TopicPartition, Partition] = {}
        self._offline: dict[TopicIdPartition, OfflineReplica] = {}

    def add(self, partition: Partition) -> None:
        assert partition.topic_partition not in self._by_name, f"{partition.topic_partition} is held already"
        self._by_id[partition.id] = partition
        self._by_name[partition.topic_partition] = partition

    def remove(self, partition: Partition) -> None:
        del self._by_id[partition.id]
        del self._by_name[partition.topic_partition]

    # --- offline ---------------------------------------------------------------------------------------------

    @property
    def offline(self) -> list[OfflineReplica]:
        return list(self._offline.values())

    def take_offline(self, replica: OfflineReplica) -> None:
        """In place of the partition, when it is open."""
        partition = self._by_id.get(replica.id)
        if partition is not None:
            self.remove(partition)
        self._offline[replica.id] = replica

    def find_offline(self, partition: TopicIdPartition) -> OfflineReplica | None:
        return self._offline.get(partition)

    def forget_offline(self, replica: OfflineReplica) -> None:
        """It is deleted, or about to be held anew."""
        self._offline.pop(replica.id, None)

    def is_held(self, partition: TopicIdPartition) -> bool:
        return partition in self._by_id or partition in self._offline

    # --- open ------------------------------------------------------------------------------------------------

    def find(self, partition: TopicIdPartition) -> Partition | None:
        return self._by_id.get(partition)

    def by_id(self, partition: TopicIdPartition) -> Partition:
        """Raises Refusal UNKNOWN_TOPIC_ID, and KAFKA_STORAGE_ERROR for one that is offline."""
        found = self.find(partition)
        if found is None:
            self._check_not_offline(self._offline.get(partition))
            topic_id, number = partition
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"this broker does not hold partition {number} of {topic_id}")
        return found

    def by_name(self, topic: str, partition: int) -> Partition:
        """Raises Refusal: KAFKA_STORAGE_ERROR for one that is offline here, NOT_LEADER_OR_FOLLOWER for one that others
        hold, UNKNOWN_TOPIC_OR_PARTITION for one that nobody does.
        """
        found = self.find_by_name(topic, partition)
        if found is None:
            name = TopicPartition(topic, partition)
            self._check_not_offline(next((one for one in self.offline if one.topic_partition == name), None))
            if not self._exists(name):
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition} of '{topic}'")
            raise Refusal(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not hold partition {partition} of '{topic}'"
            )
        return found

    def find_by_name(self, topic: str, partition: int) -> Partition | None:
        return self._by_name.get(TopicPartition(topic, partition))

    def _check_not_offline(self, replica: OfflineReplica | None) -> None:
        if replica is not None:
            # As Kafka answers: retriable, and clients look for another leader.
            raise Refusal(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{replica.topic_partition} is offline on this broker: {replica.reason}"
            )

    def leader_hint(self, topic: str, partition: int) -> tuple[BrokerId, LeaderEpoch]:
        """Who leads, as far as a replica here knows; both are -1 otherwise."""
        found = self.find_by_name(topic, partition)
        return (NO_BROKER, NO_LEADER_EPOCH) if found is None else (found.leader_id, found.leader_epoch)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)
