"""Identifiers and positions, each its own type, so that an epoch is never passed where an offset belongs."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import NamedTuple, NewType
from uuid import UUID

BrokerId = NewType("BrokerId", int)
"""`node.id` of a node; a replica of a partition is named by the broker that holds it."""

BrokerEpoch = NewType("BrokerEpoch", int)
"""Grows with every registration of a broker, so that a request of its earlier life is told apart."""

Offset = NewType("Offset", int)
"""Position of a record in its partition. High watermark and log end offset are exclusive: the next offset."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Grows with every election of a partition's leader; stored in each record batch."""

PartitionEpoch = NewType("PartitionEpoch", int)
"""Grows with every change of a partition's state: its leader, ISR or replicas."""

ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)

TopicId = NewType("TopicId", UUID)
"""Given at creation; a topic that is deleted and created again under its old name gets a new one."""

DirectoryId = NewType("DirectoryId", UUID)
"""Names one log directory's contents; an emptied directory gets a new one."""

NO_BROKER = BrokerId(-1)
"""Stands where a partition has no leader."""

NO_BROKER_EPOCH = BrokerEpoch(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_PARTITION_EPOCH = PartitionEpoch(-1)

UNKNOWN_BROKER_EPOCH = BrokerEpoch(-1)
"""Stands for an in-sync replica that has not yet fetched from this leader, so that its registration is not known."""

NO_PRODUCER_ID = ProducerId(-1)


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition, by the topic's name, as clients name it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """One partition, by the topic's id: not the partition of that name in a topic that was deleted or created since."""

    topic_id: TopicId
    partition: int


def uuid_to_text(value: UUID) -> str:
    """Kafka's text form of a 128-bit id: URL-safe base64 without padding, 22 characters."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> UUID:
    """The id written by `uuid_to_text`. Raises ValueError for anything else."""
    if len(text) != 22:
        raise ValueError(f"{text!r} is not a 22-character base64 id")
    data = urlsafe_b64decode(text + "==")
    if len(data) != 16:
        raise ValueError(f"{text!r} is not a 22-character base64 id")
    return UUID(bytes=data)
