from __future__ import annotations

import pytest

from kraft.coordinator.offsets.group_facts import SIMPLE_GROUP, GroupFacts, classic_group, consumer_group


def of_type(protocol_type: str, *, stable: bool = True, topics: set[str] | None = None) -> GroupFacts:
    """A classic group with members."""
    return classic_group(
        protocol_type=protocol_type,
        empty=False,
        stable=stable,
        current_state_timestamp_ms=1000,
        subscribed_topics=topics,
    )


def test_a_stable_group_of_consumers_keeps_the_topics_to_which_it_is_subscribed() -> None:
    facts = of_type("consumer", topics={"orders"})
    assert facts == GroupFacts(empty=False, subscribed_topics={"orders"})
    assert facts.is_subscribed_to("orders")
    assert not facts.is_subscribed_to("bills")


def test_nothing_expires_while_the_subscriptions_of_consumers_cannot_be_read() -> None:
    facts = of_type("consumer", topics=None)
    assert not facts.offsets_expire
    assert facts.is_subscribed_to("orders")


def test_nothing_expires_in_a_group_with_members_of_another_protocol_type() -> None:
    facts = of_type("connect")
    assert not facts.offsets_expire
    assert not facts.is_subscribed_to("orders")


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
@pytest.mark.parametrize("since_ms", [None, 1000])
def test_offsets_of_an_empty_classic_group_count_from_when_it_became_empty(
    protocol_type: str, since_ms: int | None
) -> None:
    topics: set[str] | None = set() if protocol_type == "consumer" else None
    facts = classic_group(
        protocol_type=protocol_type,
        empty=True,
        stable=False,
        current_state_timestamp_ms=since_ms,
        subscribed_topics=topics,
    )
    assert facts == GroupFacts(empty=True, empty_since_ms=since_ms)


def test_a_classic_group_without_protocol_type_is_simple() -> None:
    facts = classic_group(
        protocol_type="", empty=True, stable=False, current_state_timestamp_ms=1000, subscribed_topics=None
    )
    assert facts == SIMPLE_GROUP == GroupFacts(empty=True)


def test_offsets_of_the_new_protocol_always_count_from_their_commits() -> None:
    assert consumer_group(empty=True, subscribed_topics=set()) == GroupFacts(empty=True)
    members = consumer_group(empty=False, subscribed_topics={"orders"})
    assert members == GroupFacts(empty=False, subscribed_topics={"orders"})
