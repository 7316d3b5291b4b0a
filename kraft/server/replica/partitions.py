"""The replicas on this broker, by topic id and by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import (
    NO_BROKER,
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    LogDirectory,
    Offset,
    TopicId,
    TopicIdPartition,
    TopicPartition,
)
from kraft.server.loop.turns import Turns
from kraft.server.replica.counts import BrokerCounts
from kraft.server.replica.partition import Partition

_TICKS_AT_ONCE: Final = 1_000


class Damage(Enum):
    CORRUPT = auto()
    """Its bytes are not the ones that were written. They are kept."""
    MISSING = auto()
    """Its directory is missing, and with it the records that it held."""
    NOT_CREATED = auto()
    """There is no room on the disk for a new replica. It never held a record, so it may be created at any time."""
    UNREACHABLE = auto()
    """Its log directory has failed, or it may be in one that could not be used at the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineReplica:
    """A replica that is assigned to this broker and cannot be served.

    `leader_epoch` is the last one in which this process used it, -1 if it never did. `log_directory` is None if it is
    not known.
    """

    topic_partition: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch
    damage: Damage
    reason: str
    log_directory: LogDirectory | None
    high_watermark: Offset
    files_in_use: AbstractContextManager[object] = field(default_factory=nullcontext, repr=False, compare=False)
    """The partition's lock, held by a thread that moves or removes its directory."""

    @property
    def id(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.topic_partition.partition)


Exists = Callable[[TopicPartition], bool]
"""Returns True for a partition in the metadata, also if other brokers hold it."""


class Partitions:
    """This broker's replicas, each open or offline; `find` and iteration return the open ones."""

    def __init__(self, exists: Exists) -> None:
        self._exists = exists
        self._by_id: dict[TopicIdPartition, Partition] = {}
        self._by_name: dict[TopicPartition, Partition] = {}
        self._offline: dict[TopicIdPartition, OfflineReplica] = {}
        self.counts = BrokerCounts()

    def add(self, partition: Partition) -> None:
        assert partition.topic_partition not in self._by_name, f"{partition.topic_partition} is held already"
        self._by_id[partition.id] = partition
        self._by_name[partition.topic_partition] = partition
        partition.counts = self.counts.replica_added(partition.topic_partition.topic)

    def remove(self, partition: Partition) -> None:
        del self._by_id[partition.id]
        del self._by_name[partition.topic_partition]
        self.counts.replica_removed(partition.topic_partition.topic)

    # --- offline ---------------------------------------------------------------------------------------------

    @property
    def offline(self) -> list[OfflineReplica]:
        return list(self._offline.values())

    def take_offline(self, replica: OfflineReplica) -> None:
        """Add an offline replica, in place of the open partition if there is one."""
        partition = self._by_id.get(replica.id)
        if partition is not None:
            self.remove(partition)
        self._offline[replica.id] = replica

    def find_offline(self, partition: TopicIdPartition) -> OfflineReplica | None:
        return self._offline.get(partition)

    def forget_offline(self, replica: OfflineReplica) -> None:
        """Remove an offline replica that is deleted, or about to be opened again."""
        self._offline.pop(replica.id, None)

    def is_held(self, partition: TopicIdPartition) -> bool:
        return partition in self._by_id or partition in self._offline

    # --- open ------------------------------------------------------------------------------------------------

    def find(self, partition: TopicIdPartition) -> Partition | None:
        return self._by_id.get(partition)

    def by_id(self, partition: TopicIdPartition) -> Partition:
        """Return the partition. Raises Refusal: KAFKA_STORAGE_ERROR if it is offline, UNKNOWN_TOPIC_ID."""
        found = self.find(partition)
        if found is None:
            self._check_not_offline(self._offline.get(partition))
            topic_id, number = partition
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"this broker does not hold partition {number} of {topic_id}")
        return found

    def by_name(self, topic: str, partition: int) -> Partition:
        """Return the partition.

        Raises Refusal: KAFKA_STORAGE_ERROR if it is offline here, NOT_LEADER_OR_FOLLOWER if other brokers hold it,
        UNKNOWN_TOPIC_OR_PARTITION if it does not exist.
        """
        name = TopicPartition(topic, partition)
        found = self._by_name.get(name)
        if found is None:
            self._check_not_offline(next((one for one in self.offline if one.topic_partition == name), None))
            if not self._exists(name):
                raise Refusal(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition} of '{topic}' does not exist"
                )
            raise Refusal(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not hold partition {partition} of '{topic}'"
            )
        return found

    def find_by_name(self, topic: str, partition: int) -> Partition | None:
        return self._by_name.get(TopicPartition(topic, partition))

    def _check_not_offline(self, replica: OfflineReplica | None) -> None:
        if replica is not None:
            # As in Kafka: the error is retriable, and clients look for another leader.
            raise Refusal(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{replica.topic_partition} is offline on this broker: {replica.reason}"
            )

    def leader_hint(self, topic: str, partition: int) -> tuple[BrokerId, LeaderEpoch]:
        """Return the leader and its epoch as the replica here has them; both are -1 without a replica."""
        found = self.find_by_name(topic, partition)
        return (NO_BROKER, NO_LEADER_EPOCH) if found is None else (found.leader_id, found.leader_epoch)

    async def tick(self) -> None:
        """Call each partition's `tick`, with turns for other tasks. One removed meanwhile leads nothing."""
        turns = Turns(_TICKS_AT_ONCE)
        for partition in self:
            partition.tick()
            await turns.done()

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)
