"""ListGroups, DescribeGroups and DeleteGroups: groups as administrators see them."""

from __future__ import annotations

from typing import Final

from kraft.coordinator.classic.group import GroupState
from kraft.coordinator.group_refusals import not_of_protocol
from kraft.coordinator.groups.commands import DeleteGroup
from kraft.coordinator.groups.queries import describe_classic, list_groups
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kraft.rpc.call import Served
from kraft.rpc.group_calls import DESCRIBE_GROUPS
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.loop.turns import Turns
from kraft.wire.schema.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kraft.wire.schema.list_groups import ListGroupsRequest, ListGroupsResponse

GROUPS_AT_ONCE: Final = 200
"""Groups listed or described before other tasks have their turn."""


class GroupsHandler:
    def __init__(self, coordinators: GroupCoordinators) -> None:
        self._coordinators = coordinators

    async def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        """Return the groups that this broker coordinates.

        Raises Refusal: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
        """
        states = {state.lower() for state in request.states_filter}
        types = {each.lower() for each in request.types_filter}
        turns, groups = Turns(GROUPS_AT_ONCE), []
        for view in self._coordinators.views():
            for group in list_groups(view.committed, view.volatile):
                if (not states or group.group_state.lower() in states) and (not types or group.group_type in types):
                    groups.append(group)
                await turns.done()
        return ListGroupsResponse(error_code=ErrorCode.NONE, groups=tuple(groups))

    async def describe(self, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        """Return each group of the classic protocol, or its Refusal; once if the request repeats it."""
        turns, groups = Turns(GROUPS_AT_ONCE), []
        for group_id in dict.fromkeys(request.group_ids):
            group = self._described(group_id)
            groups.append(group)
            await turns.done_with_id(group_id, len(group.members))
        return DescribeGroupsResponse(groups=tuple(groups))

    def _described(self, group_id: str) -> DescribedGroup:
        try:
            view = self._coordinators.view(group_id)
            group = describe_classic(view.committed, view.volatile, group_id)
            if group.state is GroupState.DEAD:
                raise not_of_protocol(group_id, "classic")
        except Refusal as refusal:
            return DescribedGroup(group_id=group_id, error_code=refusal.error_code, error_message=refusal.message)
        return DescribedGroup(
            group_id=group_id,
            state=group.state.value,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            members=group.members,
        )

    async def delete(self, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        """Delete each group without members, with its offsets."""
        turns, results = Turns(GROUPS_AT_ONCE), []
        for group_id in dict.fromkeys(request.groups_names):
            results.append(DeletableGroupResult(group_id=group_id, error_code=await self._deleted(group_id)))
            await turns.done_with_id(group_id)
        return DeleteGroupsResponse(results=tuple(results))

    async def _deleted(self, group_id: str) -> ErrorCode:
        try:
            await self._coordinators.decide(group_id, DeleteGroup(group_id=group_id))
        except Refusal as refusal:
            return refusal.error_code
        return ErrorCode.NONE

    def served(self) -> list[Served]:
        return [DESCRIBE_GROUPS.served_by(self.describe)]
