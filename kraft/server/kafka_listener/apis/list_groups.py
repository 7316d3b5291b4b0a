"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import groups as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


class ListGroupsApi:
    def __init__(self, handle: Callable[[values.ListGroupsRequest], Awaitable[values.ListGroupsResponse]]) -> None:
        self._handle = handle

    async def __call__(self, request: ListGroupsRequest, call: RequestContext) -> ListGroupsResponse:
        wanted = values.ListGroupsRequest(states=request.states_filter, types=request.types_filter)
        try:
            listed = await self._handle(wanted)
        except Refusal as refusal:
            return ListGroupsResponse(error_code=refusal.error_code, groups=())
        return ListGroupsResponse(
            error_code=ErrorCode.NONE,
            groups=tuple(
                ListedGroup(
                    group_id=each.group_id,
                    protocol_type=each.protocol_type,
                    group_state=each.state,
                    group_type=each.type,
                )
                for each in listed.groups
            ),
        )
