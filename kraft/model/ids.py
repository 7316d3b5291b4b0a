"""Identifiers and positions, each of its own type, so that an epoch is never passed as an offset."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import NamedTuple, NewType
from uuid import UUID

from msgspec import Struct

BrokerId = NewType("BrokerId", int)
"""`node.id` of a node; a replica of a partition is identified by the broker that holds it."""

BrokerEpoch = NewType("BrokerEpoch", int)
"""Grows with every registration of a broker, so that requests of an earlier process are recognised."""

Offset = NewType("Offset", int)
"""Position of a record in its partition. High watermark and log end offset are exclusive: the next offset."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Grows with every election of a partition's leader; stored in each record batch."""

PartitionEpoch = NewType("PartitionEpoch", int)
"""Grows with every change of a partition's state: its leader, ISR or replicas."""

ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)

TopicId = NewType("TopicId", UUID)
"""Assigned at creation; a topic that is created again under the name of a deleted one gets a new id."""

DirectoryId = NewType("DirectoryId", UUID)
"""Identifies the contents of a log directory; an emptied directory gets a new id."""

LogDirectory = NewType("LogDirectory", str)
"""Path of one of the broker's log directories, as text; a path below it is a plain `str`."""

NO_BROKER = BrokerId(-1)
"""The leader of a partition without a leader."""

NO_BROKER_EPOCH = BrokerEpoch(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_PARTITION_EPOCH = PartitionEpoch(-1)

UNKNOWN_BROKER_EPOCH = BrokerEpoch(-1)
"""The epoch of an in-sync replica that has not fetched from this leader yet, so its registration is not known."""

NO_PRODUCER_ID = ProducerId(-1)


class TopicPartition(Struct, frozen=True, order=True):
    """Partition of a topic given by name, as clients know it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicPartitionReplica(Struct, frozen=True, order=True):
    """Replica of a partition on a broker."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of the partitions of each topic, in the order of their first mention."""
    numbers: dict[str, list[int]] = {}
    for each in partitions:
        numbers.setdefault(each.topic, []).append(each.partition)
    return numbers


class TopicIdPartition(NamedTuple):
    """Partition of a topic given by id, which differs from that of another topic with the same name."""

    topic_id: TopicId
    partition: int


def uuid_to_text(value: UUID) -> str:
    """Return Kafka's text form of a 128-bit id: URL-safe base64 without padding, 22 characters."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> UUID:
    """Return the id written by `uuid_to_text`. Raises ValueError for any other text."""
    if len(text) != 22:
        raise ValueError(f"{text!r} is not a 22-character base64 id")
    data = urlsafe_b64decode(text + "==")
    if len(data) != 16:
        raise ValueError(f"{text!r} is not a 22-character base64 id")
    return UUID(bytes=data)
