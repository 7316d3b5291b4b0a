"""A rebalance: the initial delay, who is waited for, which protocol and which leader the next generation has."""

from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.messages import MemberIdRequired
from kraft.model.errors import ErrorCode
from kraft.wire.schema.join_group import JoinGroupResponse
from tests.unit.coordinator.classic.coordinator import REBALANCE_MS, SESSION_MS, Coordinator, protocols


def test_each_further_member_extends_the_initial_delay_once() -> None:
    coordinator = Coordinator(initial_rebalance_delay_ms=3_000)
    _, ticket = coordinator.join_with_id()
    coordinator.advance(2_000)
    coordinator.join_with_id()
    coordinator.advance(3_999)
    assert coordinator.waits(ticket)
    coordinator.advance(1)
    assert len(coordinator.answer(ticket, JoinGroupResponse).members) == 2


def test_without_an_initial_delay_the_rebalance_goes_on_at_once() -> None:
    coordinator = Coordinator(initial_rebalance_delay_ms=0)
    _, ticket = coordinator.join_with_id()
    coordinator.advance(0)
    assert coordinator.answer(ticket, JoinGroupResponse).generation_id == 1


def test_members_that_do_not_join_within_the_rebalance_timeout_are_removed() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable(session_timeout_ms=REBALANCE_MS * 2)
    ticket = coordinator.join(follower, protocols=protocols("range", topics="payments"))
    coordinator.advance(REBALANCE_MS)
    joined = coordinator.answer(ticket, JoinGroupResponse)
    assert (joined.leader, len(joined.members)) == (follower, 1)
    assert coordinator.refusal(coordinator.join(leader)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_goes_on_once_the_id_that_it_waits_for_is_forgotten() -> None:
    coordinator = Coordinator()
    members = coordinator.stable(1)
    coordinator.join()
    ticket = coordinator.join(members[0])
    coordinator.advance(SESSION_MS)
    assert coordinator.answer(ticket, JoinGroupResponse).generation_id == 2


def test_the_leader_stays_the_leader_if_it_joins_again() -> None:
    coordinator = Coordinator()
    other = coordinator.answer(coordinator.join(), MemberIdRequired).member_id
    leader, _ = coordinator.join_with_id()
    coordinator.join(other)
    coordinator.advance(6_000)
    assert coordinator.settle([other, leader]) == [leader, other]
    coordinator.join(leader)
    ticket = coordinator.join(other)
    assert coordinator.answer(ticket, JoinGroupResponse).leader == leader


def test_only_the_leader_gets_the_members_and_their_metadata() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join_with_id(protocols=protocols("range", topics=topic)) for topic in ("a", "b")]
    coordinator.advance(6_000)
    responses = [coordinator.answer(ticket, JoinGroupResponse) for _, ticket in joins]
    leader = next(each for each in responses if each.member_id == each.leader)
    follower = next(each for each in responses if each.member_id != each.leader)
    assert {member.metadata for member in leader.members} == {b"range:a", b"range:b"}
    assert follower.members == ()


def test_a_protocol_that_one_member_lacks_is_not_selected() -> None:
    coordinator = Coordinator()
    for names in (("mine", "range"), ("mine", "range"), ("range",)):
        coordinator.join_with_id(protocols=protocols(*names))
    coordinator.advance(6_000)
    assert coordinator.live.protocol == "range"


def test_if_all_members_leave_during_the_initial_delay_the_group_is_empty_after_it() -> None:
    coordinator = Coordinator(new_member_join_timeout_ms=1_000)
    _, ticket = coordinator.join_with_id()
    coordinator.advance(1_000)
    assert coordinator.refusal(ticket) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.state is ClassicGroupState.EMPTY
    assert coordinator.recorded is not None
    assert (coordinator.recorded.generation, coordinator.recorded.members) == (1, ())
