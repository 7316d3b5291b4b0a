"""The partitions of a classic group are counted from its leader's assignments, within limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.coordinator.classic.assigned_partitions import TOPICS_MAX, assigned_partitions
from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupMember, add_member
from kraft.wire import codec
from kraft.wire.schema.consumer_protocol import ConsumerProtocolAssignment, TopicPartition


def group_of(*assignments: bytes, protocol_type: str = "consumer") -> ClassicGroup:
    group = ClassicGroup(group_id="billing")
    for number, assignment in enumerate(assignments):
        member = ClassicGroupMember(
            member_id=f"m-{number}",
            client_id="client",
            client_host="/10.0.0.1",
            rebalance_timeout_ms=1,
            session_timeout_ms=1,
            protocols=(),
            assignment=assignment,
        )
        group = add_member(group, member, protocol_type)
    return group


def assignment(topics: dict[str, int], version: int = 3, user_data: bytes | None = None) -> bytes:
    assigned = tuple(TopicPartition(topic=name, partitions=tuple(range(count))) for name, count in topics.items())
    message = ConsumerProtocolAssignment(assigned_partitions=assigned, user_data=user_data)
    return b"".join(codec.encode(message, version, bytearray(version.to_bytes(2, "big"))))


TOPICS = st.dictionaries(st.text(max_size=5), st.integers(0, 5), max_size=4)


@given(st.lists(TOPICS, min_size=1, max_size=4), st.integers(0, 3), st.none() | st.binary(max_size=5))
def test_all_partitions_of_all_members_count(members: list[dict[str, int]], version: int, data: bytes | None) -> None:
    group = group_of(*(assignment(topics, version, data) for topics in members))
    assert assigned_partitions(group) == sum(sum(topics.values()) for topics in members)


def test_a_member_that_was_left_out_has_none() -> None:
    assert assigned_partitions(group_of(assignment({"orders": 3}), b"")) == 3


def test_groups_that_are_not_of_consumers_are_not_counted() -> None:
    assert assigned_partitions(group_of(assignment({"orders": 3}), protocol_type="connect")) is None


@given(st.binary(max_size=30))
def test_any_bytes_are_counted_or_not(data: bytes) -> None:
    count = assigned_partitions(group_of(data))
    assert count is None or 0 <= count <= len(data)


@pytest.mark.parametrize("cut", range(1, 15))
def test_an_assignment_that_ends_early_is_not_counted(cut: int) -> None:
    assert assigned_partitions(group_of(assignment({"orders": 2}, user_data=None)[: -4 - cut])) is None


def test_very_many_topics_are_not_counted() -> None:
    half = {f"topic-{number}": 1 for number in range(TOPICS_MAX // 2)}
    assert assigned_partitions(group_of(assignment(half), assignment(half))) == TOPICS_MAX
    assert assigned_partitions(group_of(assignment(half), assignment(half), assignment({"orders": 1}))) is None
    assert assigned_partitions(group_of(b"\0\0\x7f\xff\xff\xff")) is None
