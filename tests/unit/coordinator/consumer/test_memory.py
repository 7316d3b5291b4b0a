"""The estimate of the memory of groups of the consumer protocol follows what is large in them."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.coordinator.consumer.group import ClassicProtocols, ConsumerGroup, ConsumerGroupMember, ResolvedRegex
from kraft.coordinator.consumer.memory import NAME_BYTES, OWNED_BYTES, TARGET_BYTES, added_bytes, wanted_bytes
from kraft.coordinator.consumer.requests import ConsumerHeartbeat
from kraft.metadata.persistent_maps import PersistentMap
from tests.support.classic_requests import offered
from tests.unit.coordinator.consumer.coordinator import GROUP, partitions

LARGE = 30_000
SMALL = 5_000
TEXT = "x" * LARGE
NAMES = frozenset(f"topic-{number}" for number in range(1_000))
EMPTY = ConsumerGroup(group_id=GROUP)


def group_of(*members: ConsumerGroupMember) -> ConsumerGroup:
    group = EMPTY
    for each in members:
        group = group.with_member(each)
    return group


def member(member_id: str = "m", **fields: Any) -> ConsumerGroupMember:
    return ConsumerGroupMember(member_id=member_id, **fields)


def heartbeat(epoch: int = 0, **fields: Any) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(**{"group_id": GROUP, "member_id": "m", "member_epoch": epoch, **fields})


@pytest.mark.parametrize(
    "group",
    [
        ConsumerGroup(group_id=TEXT),
        group_of(member(TEXT)),
        group_of(member(instance_id=TEXT)),
        group_of(member(rack_id=TEXT)),
        group_of(member(client_id=TEXT)),
        group_of(member(client_host=TEXT)),
        group_of(member(topic_regex=TEXT)),
        group_of(member(topics=frozenset({TEXT}))),
        group_of(member(classic=ClassicProtocols(session_timeout_ms=1, offered=(offered(TEXT, b""),)))),
        group_of(member(classic=ClassicProtocols(session_timeout_ms=1, offered=(offered("", b"x" * LARGE),)))),
        EMPTY.with_regex(TEXT, ResolvedRegex(topics=frozenset(), version=1, timestamp_ms=1)),
        EMPTY.with_regex("", ResolvedRegex(topics=frozenset({TEXT}), version=1, timestamp_ms=1)),
    ],
)
def test_the_estimate_counts_every_text_of_a_group(group: ConsumerGroup) -> None:
    assert LARGE < added_bytes(None, group) < LARGE + SMALL
    assert added_bytes(group, None) == -added_bytes(None, group)
    assert added_bytes(group, group) == 0


def test_the_estimate_counts_owned_and_target_partitions() -> None:
    owned = partitions("a", *range(100))
    idle = group_of(member())
    assert added_bytes(idle, group_of(member(assigned=owned))) == 100 * OWNED_BYTES
    assert added_bytes(idle, group_of(member(pending_revocation=owned))) == 100 * OWNED_BYTES
    assert added_bytes(EMPTY, ConsumerGroup(group_id=GROUP, targets=PersistentMap({"m": owned}))) == 100 * TARGET_BYTES


def test_the_estimate_counts_topics_that_members_share_once() -> None:
    one = group_of(member(topics=NAMES))
    assert added_bytes(EMPTY, one) > len(NAMES) * NAME_BYTES
    two = one.with_member(member("n", topics=frozenset(list(NAMES))))
    assert added_bytes(one, two) < SMALL
    assert two.members["n"].topics is two.members["m"].topics
    assert added_bytes(two, two.without_member("m")) > -SMALL
    assert added_bytes(None, two.without_member("m").without_member("n")) == added_bytes(None, EMPTY)


def test_the_memory_that_a_request_wants_is_what_it_adds_to_the_estimate() -> None:
    joining = heartbeat(topics=NAMES)
    group = group_of(member(topics=NAMES))
    assert wanted_bytes(None, joining) == added_bytes(None, group)
    assert wanted_bytes(group, joining) == 0
    assert 0 < wanted_bytes(group, heartbeat(member_id="n", topics=NAMES)) < SMALL
    assert wanted_bytes(group, heartbeat(2, topics=NAMES | {TEXT})) > LARGE
    assert wanted_bytes(group, heartbeat(2, topic_regex=TEXT)) == LARGE
    assert wanted_bytes(group_of(member(topic_regex=TEXT)), heartbeat(2, topic_regex=TEXT)) == 0
    for epoch, member_id in ((2, "m"), (2, "unknown"), (-1, "m"), (-2, "n")):
        assert wanted_bytes(group, heartbeat(epoch, member_id=member_id)) == 0


@pytest.mark.parametrize("name", ["instance_id", "rack_id", "client_id"])
@pytest.mark.parametrize("epoch", [0, 2])
def test_a_member_that_says_more_about_itself_wants_the_difference(epoch: int, name: str) -> None:
    longer = heartbeat(epoch, **{name: TEXT})
    assert wanted_bytes(group_of(member()), longer) == LARGE
    assert wanted_bytes(group_of(member(**{name: TEXT[1:]})), longer) == 1
    assert wanted_bytes(group_of(member(**{name: TEXT})), longer) == 0
    assert wanted_bytes(group_of(member(**{name: TEXT})), heartbeat(epoch)) <= 0
