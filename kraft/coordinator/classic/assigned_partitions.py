"""How many partitions the members of a classic group are assigned, read from what its leader has sent."""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as struct_error
from typing import Final

from kraft.coordinator.classic.group import ClassicGroup
from kraft.coordinator.offsets.group_facts import CONSUMER_PROTOCOL_TYPE

TOPICS_MAX: Final = 5_000
"""Limit on the topics of all members together that are looked at, each of which takes up to a microsecond: the count is
made in the decision on all members, which has little time (docs/adr/0046)."""

_HEAD: Final = Layout(">hi")
_NAME_LENGTH: Final = Layout(">h")
_COUNT: Final = Layout(">i")
_PARTITION_BYTES: Final = 4


def assigned_partitions(group: ClassicGroup) -> int | None:
    """Return the count; None for a group that is not of consumers, is very large, or has assignments of no such form.

    Every version of an assignment begins as version 0 does. Source: Kafka's ConsumerProtocolAssignment.json.
    """
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    topics = partitions = 0
    try:
        for member in group.members.values():
            if member.assignment:
                topics += _topics(member.assignment)
                if topics > TOPICS_MAX:
                    return None
                partitions += _partitions(member.assignment)
    except (struct_error, ValueError):
        return None
    return partitions


def _topics(assignment: bytes) -> int:
    version, topics = _HEAD.unpack_from(assignment)
    if version < 0 or topics < 0:
        raise ValueError("no assignment of a consumer")
    return int(topics)


def _partitions(assignment: bytes) -> int:
    """Return the partitions of one member. The count of its topics has been checked."""
    _, topics = _HEAD.unpack_from(assignment)
    position, partitions = _HEAD.size, 0
    for _ in range(topics):
        (length,) = _NAME_LENGTH.unpack_from(assignment, position)
        (count,) = _COUNT.unpack_from(assignment, position + _NAME_LENGTH.size + max(length, 0))
        if count < 0 or length < 0:
            raise ValueError("an assignment of another form")
        partitions += count
        position += _NAME_LENGTH.size + length + _COUNT.size + _PARTITION_BYTES * count
    if position > len(assignment):
        raise ValueError("an assignment ends early")
    return partitions
