"""Subscriptions of consumers in JoinGroup, and their assignments in SyncGroup.

The classic protocol carries these as bytes that only consumers read. A group of the consumer protocol that has classic
members reads them, too. Each begins with its version (int16).
"""

import struct
from collections.abc import Iterable
from itertools import groupby
from typing import Final, TypeVar

from kraft.coordinator.assignors.assignor import Partitions
from kraft.metadata.image import MetadataImage
from kraft.model.errors import KraftError
from kraft.wire import codec
from kraft.wire.errors import ProtocolError
from kraft.wire.schema.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

_VERSION_MAX: Final = 3
_INT16: Final = struct.Struct(">h")


Content = TypeVar("Content", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


class InvalidConsumerProtocol(KraftError):
    """Bytes that are not what consumers send."""


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Decode a subscription of any version. Raises InvalidConsumerProtocol and nothing else."""
    return _decoded(ConsumerProtocolSubscription, data)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Decode an assignment of any version. Raises InvalidConsumerProtocol and nothing else."""
    return _decoded(ConsumerProtocolAssignment, data)


def encode_assignment(partitions: Partitions, image: MetadataImage, subscription: bytes) -> bytes:
    """Encode the partitions of topics that exist, in the version of the member's subscription."""
    named = sorted(
        (image.topics[topic_id].topic, number) for topic_id, number in partitions if topic_id in image.topics
    )
    assigned = tuple(
        TopicPartition(topic=topic, partitions=tuple(number for _, number in group))
        for topic, group in groupby(named, key=lambda each: each[0])
    )
    version = max(_known_version(subscription), 0)
    message = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return b"".join(codec.encode(message, version, bytearray(_INT16.pack(version))))


def partitions_of(topics: Iterable[TopicPartition], image: MetadataImage) -> Partitions:
    """Return the partitions by topic id, of topics that exist."""
    return frozenset(
        (image.topic_ids[each.topic], number)
        for each in topics
        if each.topic in image.topic_ids
        for number in each.partitions
    )


def _decoded(kind: type[Content], data: bytes) -> Content:
    version = _known_version(data)
    if version < 0 or len(data) < _INT16.size:
        raise InvalidConsumerProtocol("the version is missing or negative")
    try:
        # A later version only adds fields at the end. An element takes a byte or more: none is refused for the number.
        return codec.decode(kind, version, data, _INT16.size, elements_max=len(data))
    except ProtocolError as error:
        raise InvalidConsumerProtocol(str(error)) from error


def _known_version(data: bytes) -> int:
    """Return the version that the bytes begin with, or the newest known one if that is lower."""
    version: int = _INT16.unpack_from(data)[0] if len(data) >= _INT16.size else 0
    return min(version, _VERSION_MAX)
