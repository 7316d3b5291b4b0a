from __future__ import annotations

import pytest

from kraft.model.classic_groups import LeaveGroup, LeftGroup, LeftMember
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.leave_group import LeaveGroupApi
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


async def leave(command: LeaveGroup) -> LeftGroup:
    """`m` is the only member."""
    if command.group_id != "g":
        raise Refusal(ErrorCode.NOT_COORDINATOR, "no")
    return LeftGroup(
        tuple(
            LeftMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=ErrorCode.NONE if each.member_id == "m" else ErrorCode.UNKNOWN_MEMBER_ID,
            )
            for each in command.members
        )
    )


@pytest.mark.parametrize(("member_id", "code"), [("m", 0), ("n", 25)])
async def test_one_member_leaves(member_id: str, code: int) -> None:
    request = LeaveGroupRequest(group_id="g", member_id=member_id)
    assert (await answered(LeaveGroupApi(leave), request, 2, LeaveGroupResponse)).error_code == code


async def test_several_members_leave() -> None:
    members = (MemberIdentity(member_id="m"), MemberIdentity(member_id="", group_instance_id="static", reason="moved"))
    response = await answered(
        LeaveGroupApi(leave), LeaveGroupRequest(group_id="g", members=members), 5, LeaveGroupResponse
    )
    assert response.error_code == 0
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in response.members] == [
        ("m", None, 0),
        ("", "static", 25),
    ]


@pytest.mark.parametrize("version", versions_of(LeaveGroupRequest))
async def test_a_group_that_is_not_coordinated_here_is_refused(version: int) -> None:
    request = LeaveGroupRequest(group_id="elsewhere", member_id="m" if version < 3 else "")
    response = await answered(LeaveGroupApi(leave), request, version, LeaveGroupResponse)
    assert (response.error_code, response.members) == (16, ())
