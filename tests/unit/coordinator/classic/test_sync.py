"""SyncGroup: the leader's assignment makes the group stable, and is the moment at which it is written."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.model.errors import ErrorCode
from kraft.wire.schema.sync_group import SyncGroupResponse
from tests.unit.coordinator.classic.coordinator import REBALANCE_MS, Coordinator


def completing(members: int = 2, **fields: int) -> tuple[Coordinator, str, list[str]]:
    """A group that waits for its leader's assignment, its leader and its followers."""
    coordinator = Coordinator()
    joined = [coordinator.join_with_id(**fields)[0] for _ in range(members)]
    coordinator.advance(6_000)
    leader = coordinator.live.leader
    assert leader is not None
    return coordinator, leader, [member_id for member_id in joined if member_id != leader]


def test_a_sync_that_is_sent_again_takes_the_place_of_the_first_one() -> None:
    coordinator, leader, (follower,) = completing()
    first, second = coordinator.sync(follower), coordinator.sync(follower)
    assert coordinator.refusal(first) is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.sync(leader)
    assert coordinator.answer(second, SyncGroupResponse).protocol_name == "range"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"member_id": "someone"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "a"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_of_another_member_generation_or_protocol_is_refused(
    fields: dict[str, Any], expected: ErrorCode
) -> None:
    coordinator, leader, _ = completing()
    arguments = {"member_id": leader, "protocol_type": "consumer", "protocol_name": "range", **fields}
    assert coordinator.refusal(coordinator.sync(**arguments)) is expected
    assert coordinator.state is ClassicGroupState.COMPLETING_REBALANCE


def test_a_group_that_is_empty_or_does_not_exist_has_nothing_to_sync() -> None:
    coordinator = Coordinator()
    assert coordinator.refusal(coordinator.sync("someone", 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.stable(1)
    coordinator.advance(60_000)
    assert coordinator.state is ClassicGroupState.EMPTY
    assert coordinator.refusal(coordinator.sync("someone")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_do_not_sync_in_time_are_removed_and_a_rebalance_begins() -> None:
    coordinator, leader, (follower,) = completing(session_timeout_ms=REBALANCE_MS * 2)
    ticket = coordinator.sync(follower)
    coordinator.advance(REBALANCE_MS)
    assert coordinator.refusal(ticket) is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(coordinator.live.members) == [follower]
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE
    assert leader in coordinator.live.rebalance_reason


def test_a_member_that_never_syncs_is_removed_from_a_stable_group() -> None:
    coordinator, leader, (follower,) = completing(session_timeout_ms=REBALANCE_MS * 2)
    coordinator.sync(leader)
    coordinator.advance(REBALANCE_MS)
    assert list(coordinator.live.members) == [leader]
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE
    assert coordinator.refusal(coordinator.sync(follower)) is ErrorCode.UNKNOWN_MEMBER_ID
