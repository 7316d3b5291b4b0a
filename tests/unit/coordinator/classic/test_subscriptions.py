"""The topics that consumers read, and what follows for their offsets."""

from __future__ import annotations

import pytest

from kraft.coordinator.classic.subscriptions import group_facts, subscribed_topics
from kraft.wire.schema.leave_group import MemberIdentity
from tests.support.classic_requests import offered
from tests.unit.coordinator.classic.coordinator import SESSION_MS, Coordinator


def subscription(*topics: str, version: int = 1) -> bytes:
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    # What later versions add follows the fields of version 0.
    return version.to_bytes(2, "big", signed=True) + len(topics).to_bytes(4, "big") + names + b"\0\0\0\0later"


@pytest.mark.parametrize("version", [0, 1, 3, 9])
def test_topics_are_read_from_subscriptions_of_every_version(version: int) -> None:
    coordinator = Coordinator()
    coordinator.join_with_id(protocols=(offered("range", subscription("a", "b", version=version)),))
    coordinator.join_with_id(protocols=(offered("range", subscription("b", "c", version=version)),))
    coordinator.advance(6_000)
    assert subscribed_topics(coordinator.live) == frozenset("abc")
    assert group_facts(coordinator.live).is_subscribed_to("a")
    assert not group_facts(coordinator.live).is_subscribed_to("z")


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0\1",
        subscription("a", version=-1),
        subscription("topic")[:9],
        b"\0\1\xff\xff\xff\xff",
        b"\0\0\0\0\0\1\0\1\xff",
    ],
)
def test_consumers_whose_subscription_is_not_readable_count_as_reading_every_topic(metadata: bytes) -> None:
    coordinator = Coordinator()
    coordinator.stable(1, protocols=(offered("range", metadata),))
    assert subscribed_topics(coordinator.live) is None
    assert group_facts(coordinator.live).is_subscribed_to("anything")


def test_groups_of_other_types_read_no_topics_that_are_known() -> None:
    coordinator = Coordinator()
    coordinator.stable(1, protocol_type="connect")
    assert subscribed_topics(coordinator.live) is None
    assert not group_facts(coordinator.live).is_subscribed_to("anything")


def test_an_empty_group_of_consumers_reads_nothing() -> None:
    coordinator = Coordinator()
    coordinator.stable(1)
    coordinator.advance(SESSION_MS)
    assert not group_facts(coordinator.live).is_subscribed_to("orders")


def test_offsets_of_an_empty_group_expire_counted_from_the_moment_at_which_it_became_empty() -> None:
    coordinator = Coordinator()
    coordinator.stable(1)
    coordinator.advance(SESSION_MS)
    since = coordinator.now_ms
    coordinator.advance(SESSION_MS)
    facts = group_facts(coordinator.live)
    assert (facts.empty, facts.empty_since_ms, facts.offsets_expire) == (True, since, True)


def test_during_a_rebalance_no_offset_expires() -> None:
    coordinator = Coordinator()
    leader, _ = coordinator.stable(protocols=(offered("range", subscription("a")),))
    assert group_facts(coordinator.live).offsets_expire
    coordinator.leave(MemberIdentity(member_id=leader))
    assert not group_facts(coordinator.live).offsets_expire
