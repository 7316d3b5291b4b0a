"""LeaveGroup: remove members from a classic group; several at once since version 3 (KIP-345)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.model.classic_groups import LeaveGroup, LeavingMember, LeftGroup
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

_SEVERAL_FROM: Final = 3
"""First version with several members, each with an error code of its own."""


class LeaveGroupApi:
    def __init__(self, handle: Callable[[LeaveGroup], Awaitable[LeftGroup]]) -> None:
        self._handle = handle

    async def __call__(self, request: LeaveGroupRequest, call: RequestContext) -> LeaveGroupResponse:
        several = call.version >= _SEVERAL_FROM
        try:
            left = await self._handle(LeaveGroup(group_id=request.group_id, members=_leaving(request, several)))
        except Refusal as refusal:
            return LeaveGroupResponse(error_code=refusal.error_code)
        if not several:
            (only,) = left.members
            return LeaveGroupResponse(error_code=only.error_code)
        return LeaveGroupResponse(
            error_code=ErrorCode.NONE,
            members=tuple(
                MemberResponse(
                    member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=each.error_code
                )
                for each in left.members
            ),
        )


def _leaving(request: LeaveGroupRequest, several: bool) -> tuple[LeavingMember, ...]:
    if not several:
        return (LeavingMember(member_id=request.member_id),)
    return tuple(
        LeavingMember(member_id=each.member_id, group_instance_id=each.group_instance_id, reason=each.reason or "")
        for each in request.members
    )
