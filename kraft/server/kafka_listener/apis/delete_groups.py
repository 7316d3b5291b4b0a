"""DeleteGroups: delete groups without members, with their committed offsets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import groups as values
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


class DeleteGroupsApi:
    def __init__(self, handle: Callable[[values.DeleteGroupsRequest], Awaitable[values.DeleteGroupsResponse]]) -> None:
        self._handle = handle

    async def __call__(self, request: DeleteGroupsRequest, call: RequestContext) -> DeleteGroupsResponse:
        deleted = await self._handle(values.DeleteGroupsRequest(group_ids=request.groups_names))
        return DeleteGroupsResponse(
            results=tuple(
                DeletableGroupResult(group_id=each.group_id, error_code=each.error_code) for each in deleted.groups
            )
        )
