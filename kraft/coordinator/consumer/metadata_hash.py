"""A hash of the metadata that the assignments of a group depend on.

These are the ids of the topics that its members subscribe to, and how many partitions they have.

Every heartbeat asks whether it has changed. It comes from a sum over the topics, so that after a change of the
subscriptions or of the metadata only the topics that differ are looked at. Racks are left out, unlike in Kafka
(KIP-1101), because no assignor uses them. A hash that Kafka has recorded differs, and only makes the group compute its
assignment once more.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

from kraft.metadata.image import MetadataImage, TopicImage
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.ids import TopicId

_HASH_BITS: Final = 64
_SUM_BITS: Final = 128
"""Above these bits, the sum counts partitions. The hashes of all topics together do not reach them."""


class _LastSum(NamedTuple):
    names: PersistentMap[str, int]
    topics: PersistentMap[TopicId, TopicImage]
    total: int = 0


class MetadataHash:
    """Computes the hash, and remembers the last sum.

    All versions of a group share it. It is no part of the group's value: what it returns depends on the arguments only.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known = _LastSum(PersistentMap(), PersistentMap())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MetadataHash)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "MetadataHash()"

    def of(self, names: PersistentMap[str, int], image: MetadataImage) -> int:
        """Return the hash for the topics with these names; 0 if there are none."""
        unsigned = self._sum(names, image) % (1 << _HASH_BITS)
        return unsigned - (1 << _HASH_BITS) if unsigned >> (_HASH_BITS - 1) else unsigned

    def partitions(self, names: PersistentMap[str, int], image: MetadataImage) -> int:
        """Return how many partitions the topics with these names have."""
        return self._sum(names, image) >> _SUM_BITS

    def _sum(self, names: PersistentMap[str, int], image: MetadataImage) -> int:
        known = self._known
        if known.names is not names or known.topics is not image.topics:
            topics = PersistentMap.of(image.topics)
            total = known.total + _changed_topics(known, topics) + _changed_names(known.names, names, image)
            known = self._known = _LastSum(names, topics, total)
        return known.total


def _changed_topics(known: _LastSum, topics: PersistentMap[TopicId, TopicImage]) -> int:
    """Return what changes with the metadata, for the names as they were."""
    if not known.names or topics is known.topics:
        return 0
    return sum(
        _number_of(topics.get(topic_id), known.names) - _number_of(known.topics.get(topic_id), known.names)
        for topic_id in topics.differing_keys(known.topics)
    )


def _number_of(topic: TopicImage | None, names: PersistentMap[str, int]) -> int:
    return 0 if topic is None or topic.topic not in names else _number(topic)


def _changed_names(before: PersistentMap[str, int], after: PersistentMap[str, int], image: MetadataImage) -> int:
    """Return what changes with the names, for the metadata as it is now."""
    total = 0
    for name in after.differing_keys(before):
        change = (name in after) - (name in before)
        topic = image.topic(name) if change else None
        if topic is not None:
            total += change * _number(topic)
    return total


def _number(topic: TopicImage) -> int:
    partitions = len(topic.partitions)
    described = topic.topic_id.bytes + partitions.to_bytes(4, "big")
    digest = blake2b(described, digest_size=_HASH_BITS // 8).digest()
    return (partitions << _SUM_BITS) + int.from_bytes(digest, "big")
