"""JoinGroup: ids for new members, limits, protocols, and what a member that joins again gets."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.messages import MemberIdRequired
from kraft.model.errors import ErrorCode
from kraft.wire.schema.join_group import JoinGroupResponse
from tests.unit.coordinator.classic.coordinator import SESSION_MS, Coordinator, protocols


def test_a_new_member_is_given_an_id_to_join_with() -> None:
    coordinator = Coordinator()
    required = coordinator.answer(coordinator.join(client_id="app"), MemberIdRequired)
    assert required.member_id == "app-0001"
    assert required.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert coordinator.is_in(ClassicGroupState.EMPTY)
    assert coordinator.waits(coordinator.join(required.member_id))
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE


def test_before_version_4_a_new_member_joins_at_once() -> None:
    coordinator = Coordinator()
    assert coordinator.waits(coordinator.join(version=3))
    assert len(coordinator.live.members) == 1


def test_an_empty_group_id_is_refused() -> None:
    coordinator = Coordinator()
    assert coordinator.refusal(coordinator.join(group_id="")) is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(("session_ms", "is_valid"), [(5_999, False), (6_000, True), (9_000, True), (9_001, False)])
def test_session_timeouts_have_bounds(session_ms: int, is_valid: bool) -> None:
    coordinator = Coordinator(session_timeout_min_ms=6_000, session_timeout_max_ms=9_000)
    expected = ErrorCode.MEMBER_ID_REQUIRED if is_valid else ErrorCode.INVALID_SESSION_TIMEOUT
    assert coordinator.refusal(coordinator.join(session_timeout_ms=session_ms)) is expected


@pytest.mark.parametrize("rebalance_ms", [-1, 0])
def test_without_a_rebalance_timeout_the_session_timeout_is_it(rebalance_ms: int) -> None:
    coordinator = Coordinator()
    coordinator.join(version=3, rebalance_timeout_ms=rebalance_ms)
    assert coordinator.live.rebalance_timeout_ms == SESSION_MS


@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": ()}])
def test_a_first_member_has_to_have_a_protocol(fields: dict[str, Any]) -> None:
    coordinator = Coordinator()
    assert coordinator.refusal(coordinator.join(**fields)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.state is ClassicGroupState.DEAD


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocols": protocols("sticky")}])
def test_a_member_has_to_share_a_protocol_with_all_others(fields: dict[str, Any]) -> None:
    coordinator = Coordinator()
    members = coordinator.stable()
    assert coordinator.refusal(coordinator.join(**fields)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.refusal(coordinator.join(members[1], **fields)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.state is ClassicGroupState.STABLE


def test_a_member_that_sends_its_join_again_waits_with_the_later_one() -> None:
    coordinator = Coordinator()
    member_id, first = coordinator.join_with_id()
    second = coordinator.join(member_id)
    assert coordinator.refusal(first) is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.advance(6_000)
    assert coordinator.answer(second, JoinGroupResponse).generation_id == 1


def test_of_members_that_were_given_ids_only_the_first_ones_get_into_a_group_of_limited_size() -> None:
    coordinator = Coordinator(size_max=2)
    ids = [coordinator.answer(coordinator.join(), MemberIdRequired).member_id for _ in range(3)]
    tickets = [coordinator.join(member_id) for member_id in ids]
    assert [coordinator.waits(ticket) for ticket in tickets] == [True, True, False]
    assert coordinator.refusal(tickets[2]) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not coordinator.live.pending_joins


def test_a_member_that_waits_in_a_full_group_may_send_its_join_again() -> None:
    coordinator = Coordinator(size_max=1)
    member_id, _ = coordinator.join_with_id()
    assert coordinator.waits(coordinator.join(member_id))


def test_the_last_members_to_join_again_are_left_out_of_a_group_that_has_become_too_large() -> None:
    coordinator = Coordinator()
    members = coordinator.stable(3)
    coordinator.load(size_max=2)
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE
    tickets = [coordinator.join(member_id) for member_id in members]
    assert coordinator.refusal(tickets[2]) is ErrorCode.GROUP_MAX_SIZE_REACHED
    coordinator.advance(60_000)
    assert coordinator.answer(tickets[0], JoinGroupResponse).generation_id == 2
    assert len(coordinator.live.members) == 2


def test_a_new_member_makes_a_stable_group_rebalance() -> None:
    coordinator = Coordinator()
    members = coordinator.stable(1)
    newcomer, ticket = coordinator.join_with_id()
    assert coordinator.waits(ticket)
    coordinator.join(members[0])
    assert coordinator.answer(ticket, JoinGroupResponse).generation_id == 2
    assert coordinator.live.members.keys() == {members[0], newcomer}


def test_in_a_stable_group_a_join_of_its_leader_begins_a_rebalance_and_a_followers_does_not() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    answered = coordinator.answer(coordinator.join(follower), JoinGroupResponse)
    assert (answered.generation_id, answered.members, coordinator.state) == (1, (), ClassicGroupState.STABLE)
    assert coordinator.waits(coordinator.join(leader))
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE
