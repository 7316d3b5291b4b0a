"""Topics that a classic group reads. The fate of its committed offsets depends on them."""

from __future__ import annotations

from struct import error as struct_error
from struct import unpack_from

from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kraft.coordinator.offsets.group_facts import CONSUMER_PROTOCOL_TYPE, GroupFacts, classic_group


def group_facts(group: ClassicGroup) -> GroupFacts:
    """Return what the deletion and the expiry of the group's offsets depend on."""
    return classic_group(
        protocol_type=group.protocol_type or "",
        empty=group.state is ClassicGroupState.EMPTY,
        stable=group.state is ClassicGroupState.STABLE,
        current_state_timestamp_ms=group.state_since_ms if group.state_since_ms >= 0 else None,
        subscribed_topics=subscribed_topics(group),
    )


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """Return the topics that a group of consumers reads; None for another group, or if a subscription has no such list.

    Every version of a subscription begins as version 0 does. Source: Kafka's ConsumerProtocolSubscription.json.
    """
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    try:
        subscriptions = [_topics(member.metadata(group.protocol)) for member in group.members.values()]
    except (struct_error, UnicodeDecodeError, ValueError):
        return None
    return frozenset(topic for topics in subscriptions for topic in topics)


def _topics(subscription: bytes) -> list[str]:
    version, count = unpack_from(">hi", subscription)
    position, topics = 6, []
    if version < 0 or count < 0:
        raise ValueError("no subscription of a consumer")
    for _ in range(count):
        (length,) = unpack_from(">h", subscription, position)
        position += 2
        if not 0 <= length <= len(subscription) - position:
            raise ValueError("a topic name ends early")
        topics.append(subscription[position : position + length].decode())
        position += length
    return topics
