"""LeaveGroup: members by id or by instance id, several at once, each with its own result."""

from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.classic.messages import MemberIdRequired
from kraft.model.errors import ErrorCode
from kraft.wire.schema.join_group import JoinGroupResponse
from kraft.wire.schema.leave_group import MemberIdentity
from tests.unit.coordinator.classic.coordinator import Coordinator


def test_a_member_that_leaves_makes_the_others_rebalance() -> None:
    coordinator = Coordinator()
    leader, follower = coordinator.stable()
    coordinator.leave(MemberIdentity(member_id=leader))
    assert coordinator.state is ClassicGroupState.PREPARING_REBALANCE
    joined = coordinator.answer(coordinator.join(follower), JoinGroupResponse)
    assert (joined.generation_id, joined.leader) == (2, follower)


def test_several_members_leave_at_once_each_with_its_result() -> None:
    coordinator = Coordinator()
    members = coordinator.stable(3)
    leaving = [MemberIdentity(member_id=each) for each in (members[0], "someone", members[1], members[0])]
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.leave(*leaving) == [ErrorCode.NONE, unknown, ErrorCode.NONE, unknown]
    assert list(coordinator.live.members) == [members[2]]


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    coordinator = Coordinator()
    for instance in ("a", "b"):
        coordinator.join(group_instance_id=instance)
    coordinator.advance(6_000)
    coordinator.settle(sorted(coordinator.live.members))
    leaving = [
        MemberIdentity(member_id="", group_instance_id="a"),
        MemberIdentity(member_id="", group_instance_id="z"),
        MemberIdentity(member_id=""),
    ]
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.leave(*leaving) == [ErrorCode.NONE, unknown, unknown]
    assert list(coordinator.live.static_members) == ["b"]


def test_an_instance_that_left_in_the_same_request_is_unknown_not_fenced() -> None:
    coordinator = Coordinator()
    coordinator.join(group_instance_id="a")
    coordinator.advance(6_000)
    (member_id,) = coordinator.live.members
    coordinator.settle([member_id])
    leaving = [MemberIdentity(member_id=each, group_instance_id="a") for each in ("", "", "a-0", member_id)]
    assert coordinator.leave(*leaving) == [ErrorCode.NONE, *[ErrorCode.UNKNOWN_MEMBER_ID] * 3]


def test_a_static_member_with_an_earlier_id_is_fenced() -> None:
    coordinator = Coordinator()
    coordinator.join(group_instance_id="a")
    coordinator.advance(6_000)
    coordinator.settle(sorted(coordinator.live.members))
    leaving = MemberIdentity(member_id="a-0", group_instance_id="a")
    assert coordinator.leave(leaving) == [ErrorCode.FENCED_INSTANCE_ID]
    assert coordinator.state is ClassicGroupState.STABLE


def test_an_id_that_was_given_out_may_leave_before_it_is_used() -> None:
    coordinator = Coordinator()
    member_id = coordinator.answer(coordinator.join(), MemberIdRequired).member_id
    assert coordinator.leave(MemberIdentity(member_id=member_id)) == [ErrorCode.NONE]
    assert coordinator.state is ClassicGroupState.DEAD


def test_requests_of_a_member_that_is_removed_are_answered() -> None:
    coordinator = Coordinator()
    joins = [coordinator.join_with_id() for _ in range(3)]
    coordinator.leave(MemberIdentity(member_id=joins[0][0]))
    assert coordinator.refusal(joins[0][1]) is ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.advance(6_000)
    follower = next(member_id for member_id, _ in joins[1:] if member_id != coordinator.live.leader)
    ticket = coordinator.sync(follower)
    coordinator.leave(MemberIdentity(member_id=follower))
    assert coordinator.refusal(ticket) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_that_does_not_exist_has_no_members() -> None:
    assert Coordinator().leave(MemberIdentity(member_id="someone")) == [ErrorCode.UNKNOWN_MEMBER_ID]
