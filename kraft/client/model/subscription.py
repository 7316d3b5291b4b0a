"""A consumer's subscription: topics, and the callbacks for partitions that its group moves."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from msgspec import Struct

from kraft.metadata.topic_names import check_topic_name
from kraft.model.ids import TopicPartition

RebalanceCallback: TypeAlias = Callable[[list[TopicPartition]], Awaitable[None] | None]
"""Gets the partitions that are assigned, revoked or lost. Runs inside a poll, which waits for it."""


class Subscription(Struct, frozen=True, kw_only=True, weakref=True):
    """Topics by name, by a regular expression, or both."""

    topics: frozenset[str] = frozenset()
    pattern: str = ""
    on_assigned: RebalanceCallback | None = None
    on_revoked: RebalanceCallback | None = None
    on_lost: RebalanceCallback | None = None
    """`on_revoked` is called if there is none."""

    @property
    def without_callbacks(self) -> Subscription:
        return Subscription(topics=self.topics, pattern=self.pattern)


def listed_topics(topics: object) -> list[str]:
    """Return the topics that a subscription names. Raises ValueError for what is neither a text nor a list of them."""
    if isinstance(topics, str):
        return [topics]
    if isinstance(topics, bytes) or not isinstance(topics, Iterable):
        raise ValueError(f"subscribe: expected a list of topics, not {topics!r}")
    return list(topics)


def subscription_to(
    topics: str | Iterable[str],
    pattern: str | re.Pattern[str] | None,
    *,
    on_assigned: RebalanceCallback | None,
    on_revoked: RebalanceCallback | None,
    on_lost: RebalanceCallback | None,
) -> Subscription:
    """Return the subscription. Raises ValueError if it names nothing, and INVALID_TOPIC_EXCEPTION for a wrong name."""
    given = listed_topics(topics)
    for name in given:
        if not isinstance(name, str):
            raise ValueError(f"subscribe: {name!r} is not the name of a topic: expected text")
    names = frozenset(given)
    regex = (pattern.pattern if isinstance(pattern, re.Pattern) else pattern) or ""
    if not isinstance(regex, str):
        raise ValueError(f"subscribe: {regex!r} is not a regular expression of text")
    if not names and not regex:
        raise ValueError("subscribe: give topics or a pattern; unsubscribe ends a subscription")
    if "" in names:
        raise ValueError("subscribe: the name of a topic is empty")
    for name in sorted(names):
        check_topic_name(name)
    return Subscription(
        topics=names, pattern=regex, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost or on_revoked
    )
