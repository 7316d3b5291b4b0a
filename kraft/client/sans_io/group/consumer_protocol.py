"""Subscriptions and assignments of classic groups of consumers: the bytes inside JoinGroup and SyncGroup.

The bytes begin with their version. Members may be programs of other clients, so any version may come. A later version
begins as the ones before it do.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct as Packed
from typing import Final

from msgspec import Struct

from kraft.client.model.group_offsets import numbers_by_topic
from kraft.model.ids import TopicPartition
from kraft.wire.codec import decode, encode
from kraft.wire.errors import ProtocolError
from kraft.wire.schema import consumer_protocol as wire

_VERSION: Final = Packed(">h")
_LATEST: Final = 3

NO_GENERATION: Final = -1


class MemberSubscription(Struct, frozen=True, kw_only=True):
    """The topics of a member, and the partitions that it has owned since `generation`."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = NO_GENERATION
    rack_id: str | None = None


def encode_subscription(subscription: MemberSubscription) -> bytes:
    return _encoded(
        wire.ConsumerProtocolSubscription(
            topics=tuple(sorted(subscription.topics)),
            owned_partitions=_grouped(subscription.owned),
            generation_id=subscription.generation,
            rack_id=subscription.rack_id,
        )
    )


def decode_subscription(data: bytes) -> MemberSubscription:
    """Raises ProtocolError."""
    found = decode(wire.ConsumerProtocolSubscription, _version(data), data, _VERSION.size)
    return MemberSubscription(
        topics=frozenset(found.topics),
        owned=_ungrouped(found.owned_partitions),
        generation=found.generation_id,
        rack_id=found.rack_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    return _encoded(wire.ConsumerProtocolAssignment(assigned_partitions=_grouped(partitions)))


def decode_assignment(data: bytes) -> frozenset[TopicPartition]:
    """Return the partitions; empty bytes are no partitions. Raises ProtocolError."""
    if not data:
        return frozenset()
    found = decode(wire.ConsumerProtocolAssignment, _version(data), data, _VERSION.size)
    return _ungrouped(found.assigned_partitions)


def _encoded(message: wire.ConsumerProtocolSubscription | wire.ConsumerProtocolAssignment) -> bytes:
    return b"".join(bytes(part) for part in encode(message, _LATEST, bytearray(_VERSION.pack(_LATEST))))


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise ProtocolError("the version is missing")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"{version} is not a version")
    return min(version, _LATEST)


def _grouped(partitions: Iterable[TopicPartition]) -> tuple[wire.TopicPartition, ...]:
    by_topic = numbers_by_topic(partitions)
    return tuple(wire.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in by_topic.items())


def _ungrouped(topics: Iterable[wire.TopicPartition]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partitions)
