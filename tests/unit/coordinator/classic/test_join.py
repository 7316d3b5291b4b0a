"""JoinGroup: ids for new members, limits, protocols, and what a member that joins again gets."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.messages import JoinedGroup, MemberIdRequired
from kraft.coordinator.classic.timers import SessionTimer
from kraft.model.errors import ErrorCode
from tests.unit.coordinator.classic.coordinator import GROUP, SESSION_MS, Coordinator, protocols


def test_a_new_member_is_given_an_id_to_join_with() -> None:
    coordinator = Coordinator()
    required = coordinator.answer(coordinator.join(client_id="app"), MemberIdRequired)
    assert required.member_id == "app-0001"
    assert required.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert coordinator.is_in(ClassicGroupState.EMPTY)
    assert coordinator.waits(coordinator.join(required.member_id))
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE


def test_an_id_that_is_not_used_is_forgotten_after_the_session_timeout_and_so_is_its_group() -> None:
    coordinator = Coordinator()
    member_id = coordinator.answer(coordinator.join(), MemberIdRequired).member_id
    assert coordinator.timers == {SessionTimer(GROUP, member_id): coordinator.now_ms + SESSION_MS}
    coordinator.advance(SESSION_MS)
    assert coordinator.state is ClassicGroupState.DEAD
    assert coordinator.records == []
    assert coordinator.refusal(coordinator.join(member_id)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_cannot_be_used_by_a_static_member() -> None:
    coordinator = Coordinator()
    member_id = coordinator.answer(coordinator.join(), MemberIdRequired).member_id
    ticket = coordinator.join(member_id, group_instance_id="a")
    assert coordinator.refusal(ticket) is ErrorCode.UNKNOWN_MEMBER_ID


def test_before_version_4_a_new_member_joins_at_once() -> None:
    coordinator = Coordinator()
    assert coordinator.waits(coordinator.join(member_id_required=False))
    assert len(coordinator.live.members) == 1


def test_a_member_id_is_unknown_to_a_group_that_does_not_exist() -> None:
    coordinator = Coordinator()
    assert coordinator.refusal(coordinator.join("someone")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.state is ClassicGroupState.DEAD


def test_an_unknown_member_id_is_refused() -> None:
    coordinator = Coordinator()
    coordinator.stable()
    assert coordinator.refusal(coordinator.join("someone")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.state is ClassicGroupState.STABLE


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
    coordinator.join(member_id_required=False, rebalance_timeout_ms=rebalance_ms)
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


def test_an_empty_group_takes_members_of_another_protocol_type() -> None:
    coordinator = Coordinator()
    coordinator.stable(1)
    coordinator.advance(SESSION_MS)
    assert coordinator.state is ClassicGroupState.EMPTY
    coordinator.stable(1, protocol_type="connect", protocols=protocols("default"))
    assert coordinator.live.protocol_type == "connect"


def test_a_follower_that_has_not_changed_gets_its_generation_again() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    again = coordinator.answer(coordinator.join(follower), JoinedGroup)
    assert (again.generation, again.leader, again.members) == (1, leader, ())
    assert coordinator.state is ClassicGroupState.STABLE


def test_a_follower_that_has_changed_causes_a_rebalance() -> None:
    coordinator = Coordinator()
    _, follower = coordinator.stable()
    assert coordinator.waits(coordinator.join(follower, protocols=protocols("range", topics="payments")))
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE
    assert "changed" in coordinator.live.rebalance_reason


def test_the_leader_of_a_stable_group_causes_a_rebalance_by_joining_again() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    ticket = coordinator.join(leader, reason="partitions were added")
    assert coordinator.waits(ticket)
    assert coordinator.live.rebalance_reason.endswith("client reason: partitions were added")
    coordinator.join(follower)
    assert coordinator.answer(ticket, JoinedGroup).generation == 2


def test_a_reason_of_any_length_is_cut() -> None:
    coordinator = Coordinator()
    coordinator.join(member_id_required=False, reason="x" * 30_000)
    assert len(coordinator.live.rebalance_reason) == 500


@pytest.mark.parametrize("place", [0, 1])
def test_while_a_rebalance_is_completed_an_unchanged_member_gets_its_generation_again(place: int) -> None:
    coordinator = Coordinator()
    joins = [coordinator.join_with_id() for _ in range(2)]
    coordinator.advance(6_000)
    member_id, ticket = joins[place]
    again = coordinator.answer(coordinator.join(member_id), JoinedGroup)
    assert again == coordinator.replies[ticket]
    assert len(again.members) == (2 if member_id == coordinator.live.leader else 0)


def test_while_a_rebalance_is_completed_a_changed_member_begins_another() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join_with_id() for _ in range(2)]
    coordinator.advance(6_000)
    waiting = coordinator.sync(next(member for member, _ in joins if member != coordinator.live.leader))
    assert coordinator.live.leader is not None
    coordinator.join(coordinator.live.leader, protocols=protocols("range", topics="payments"))
    assert coordinator.refusal(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE


def test_a_member_that_sends_its_join_again_waits_with_the_later_one() -> None:
    coordinator = Coordinator()
    member_id, first = coordinator.join_with_id()
    second = coordinator.join(member_id)
    assert coordinator.refusal(first) is ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.advance(6_000)
    assert coordinator.answer(second, JoinedGroup).generation == 1


def test_a_stable_group_has_at_most_its_largest_size() -> None:
    coordinator = Coordinator(size_max=2)
    _, follower = coordinator.stable(2)
    assert coordinator.refusal(coordinator.join()) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert coordinator.answer(coordinator.join(follower), JoinedGroup).generation == 1


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
    assert coordinator.answer(tickets[0], JoinedGroup).generation == 2
    assert len(coordinator.live.members) == 2


def test_a_new_member_makes_a_stable_group_rebalance() -> None:
    coordinator = Coordinator()
    members = coordinator.stable(1)
    newcomer, ticket = coordinator.join_with_id()
    assert coordinator.waits(ticket)
    coordinator.join(members[0])
    assert coordinator.answer(ticket, JoinedGroup).generation == 2
    assert coordinator.live.members.keys() == {members[0], newcomer}
