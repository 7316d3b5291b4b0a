"""Who reads which partitions of a group, as its committed state says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kraft.coordinator.assignors.assignor import Partitions
from kraft.coordinator.consumer_protocol import InvalidConsumerProtocol, decode_assignment
from kraft.coordinator.groups.replicated import Groups
from kraft.coordinator.offsets.group_facts import CONSUMER_PROTOCOL_TYPE
from kraft.metadata.image import MetadataImage
from kraft.model.ids import TopicPartition

ASSIGNMENT_BYTES_MAX: Final = 64 * 1024
"""Limit on the assignment of a member of the classic protocol that is read, which takes up to 6 ms."""


class Owner(NamedTuple):
    """A member, and what it reads."""

    host: str
    client_id: str
    partitions: list[TopicPartition]


def owners(groups: Groups, group_id: str, image: MetadataImage) -> Iterator[Owner]:
    """Yield the members of a group, in no particular order, with partitions of topics that exist.

    A member of the classic protocol whose assignment is no consumer's, or very long, owns nothing.
    """
    consumer = groups.consumer.get(group_id)
    if consumer is not None:
        for member in consumer.members.values():
            yield Owner(member.client_host, member.client_id, _named(member.owned, image))
    elif (classic := groups.classic.get(group_id)) is not None and classic.protocol_type == CONSUMER_PROTOCOL_TYPE:
        for recorded in classic.members:
            yield Owner(recorded.client_host, recorded.client_id, _of_assignment(recorded.assignment))


def _named(partitions: Partitions, image: MetadataImage) -> list[TopicPartition]:
    topics = {topic_id: image.topic_by_id(topic_id) for topic_id, _ in partitions}
    return [
        TopicPartition(topic.topic, number)
        for topic_id, number in partitions
        if (topic := topics[topic_id]) is not None
    ]


def _of_assignment(assignment: bytes) -> list[TopicPartition]:
    if not 0 < len(assignment) <= ASSIGNMENT_BYTES_MAX:
        return []
    try:
        topics = decode_assignment(assignment).assigned_partitions
    except InvalidConsumerProtocol:
        return []
    return [TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions]
