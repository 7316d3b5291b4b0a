"""Facts of a group on which the deletion and expiry of its offsets depend."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from msgspec import Struct

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""Protocol type of classic groups of consumers. Others, such as Kafka Connect's, subscribe to nothing."""


class GroupFacts(Struct, frozen=True, kw_only=True):
    """Facts of a group at the moment of a decision."""

    empty: bool
    """It has no members, so it may be removed with its last offset."""

    subscribed_topics: Set[str] | None = frozenset()
    """Topics whose offsets are in use. None: not known, so every topic counts as one of them."""

    offsets_expire: bool = True
    """False: no offset expires in the group's present state."""

    empty_since_ms: int | None = None
    """From when on the retention counts for offsets committed before; None: each counts from its commit."""

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscribed_topics is None or topic in self.subscribed_topics


SIMPLE_GROUP: Final = GroupFacts(empty=True)
"""A group that consists of its offsets: clients commit without being members. Each offset counts from its commit."""


def classic_group(
    *,
    protocol_type: str,
    empty: bool,
    stable: bool,
    current_state_timestamp_ms: int | None,
    subscribed_topics: Set[str] | None,
) -> GroupFacts:
    """Return the facts of a classic group.

    While it has no members, the retention counts from the last change of its state, or from a later commit. A record of
    Kafka before 2.1 has no such timestamp (None); then each offset counts from its commit.

    While it is stable, offsets of topics to which no member is subscribed expire, counted from their commits. None
    expires during a rebalance, because subscriptions may change, nor if the members' subscriptions cannot be read
    (None), nor in a group with members of another protocol type.

    A group without protocol type never had members: it is simple.
    """
    if not protocol_type:
        return SIMPLE_GROUP
    of_consumers = protocol_type == CONSUMER_PROTOCOL_TYPE
    topics = frozenset() if subscribed_topics is None and not of_consumers else subscribed_topics
    if empty:
        return GroupFacts(empty=True, subscribed_topics=topics, empty_since_ms=current_state_timestamp_ms)
    return GroupFacts(
        empty=False,
        subscribed_topics=topics,
        offsets_expire=of_consumers and stable and subscribed_topics is not None,
    )


def consumer_group(*, empty: bool, subscribed_topics: Set[str] | None) -> GroupFacts:
    """Return the facts of a group of the new protocol (KIP-848): each offset counts from its commit, in every state.

    `subscribed_topics` are those that members name, and those that their regular expressions match; None while one of
    these has not been resolved.
    """
    return GroupFacts(empty=empty, subscribed_topics=subscribed_topics)
