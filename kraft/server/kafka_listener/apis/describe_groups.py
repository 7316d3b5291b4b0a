"""DescribeGroups: state and members of groups of the classic protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.model import groups as values
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.apis.authorized_operations import NOT_ASKED, ON_GROUP
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

_NOT_FOUND_FROM: Final = 6
"""First version with an error for a group that does not exist (KIP-1043). Before, such a group is dead."""

_DEAD: Final = "Dead"

Handle = Callable[[values.DescribeGroupsRequest], Awaitable[values.DescribeGroupsResponse]]


class DescribeGroupsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: DescribeGroupsRequest, call: RequestContext) -> DescribeGroupsResponse:
        described = await self._handle(values.DescribeGroupsRequest(group_ids=request.groups))
        operations = ON_GROUP if request.include_authorized_operations else NOT_ASKED
        return DescribeGroupsResponse(groups=tuple(_group(each, call.version, operations) for each in described.groups))


def _group(group: values.DescribedGroup, version: int, operations: int) -> DescribedGroup:
    error_code, state = group.error_code, group.state
    if error_code is ErrorCode.GROUP_ID_NOT_FOUND:
        state = _DEAD
        if version < _NOT_FOUND_FROM:
            error_code = ErrorCode.NONE
    return DescribedGroup(
        error_code=error_code,
        error_message=group.error_message or None,
        group_id=group.group_id,
        group_state=state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=tuple(
            DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                member_metadata=each.metadata,
                member_assignment=each.assignment,
            )
            for each in group.members
        ),
        authorized_operations=operations if error_code is ErrorCode.NONE else NOT_ASKED,
    )
