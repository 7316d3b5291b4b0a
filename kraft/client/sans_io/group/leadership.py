"""Leadership of one generation of a classic group: the leader counts partitions, and assigns them to the members."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

from kraft.client.sans_io.group.assignors import Assignments, Counts, assign
from kraft.client.sans_io.group.consumer_protocol import MemberSubscription, decode_subscription
from kraft.wire.errors import ProtocolError

log = logging.getLogger("kraft.client")


class JoinedMember(Protocol):
    """A member as the coordinator lists it for the leader."""

    @property
    def member_id(self) -> str: ...
    @property
    def group_instance_id(self) -> str | None: ...
    @property
    def metadata(self) -> bytes: ...


class Leadership:
    """What the leader knows about the members of its generation, and about their topics."""

    def __init__(self, assignor: str, members: Iterable[JoinedMember], topics: frozenset[str]) -> None:
        """`topics` are those that the leader itself subscribes to."""
        self._assignor = assignor
        self._subscriptions = {each.member_id: _subscription(each) for each in members}
        self._instance_ids = {each.member_id: each.group_instance_id for each in members}
        self.topics = topics.union(*(each.topics for each in self._subscriptions.values()))
        """The topics of all members."""
        self.counts: Counts = {}
        """How many partitions each of them has, as it was last told."""

    def count(self, found: Mapping[str, int]) -> bool:
        """Take the partition counts of topics that exist. Return True if those of the members' topics have changed."""
        before, self.counts = self.counts, {topic: found[topic] for topic in self.topics if topic in found}
        return self.counts != before

    def assignments(self) -> Assignments:
        return assign(self._assignor, self._subscriptions, self._instance_ids, self.counts)


def _subscription(member: JoinedMember) -> MemberSubscription:
    """Return the member's subscription; one that cannot be read has no topics."""
    try:
        return decode_subscription(member.metadata)
    except ProtocolError as error:
        log.warning("the subscription of member %s is unreadable, so it gets nothing: %s", member.member_id, error)
        return MemberSubscription(topics=frozenset())
