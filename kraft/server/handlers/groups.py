"""ListGroups, DescribeGroups and DeleteGroups: groups as administrators see them."""

from __future__ import annotations

from typing import Final

from kraft.coordinator.classic.group import ClassicGroupState
from kraft.coordinator.groups.commands import DeleteGroup
from kraft.coordinator.groups.queries import describe_classic, list_groups
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.handlers.authorized_operations import on_group
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import replace
from kraft.wire.schema.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kraft.wire.schema.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from kraft.wire.schema.list_groups import ListGroupsRequest, ListGroupsResponse

_NOT_FOUND_FROM: Final = 6
"""First version of DescribeGroups with an error for a group that does not exist."""

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
                    rebalances = self._coordinators.rebalances.lately(group.group_id)
                    groups.append(replace(group, rebalances=rebalances) if rebalances else group)
                await turns.done()
        return ListGroupsResponse(error_code=ErrorCode.NONE, groups=tuple(groups))

    async def describe(self, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        """Return each group of the classic protocol, or its Refusal; once if the request repeats it."""
        turns, groups = Turns(GROUPS_AT_ONCE), []
        operations = on_group(asked=request.include_authorized_operations)
        for group_id in dict.fromkeys(request.groups):
            try:
                view = self._coordinators.view(group_id)
                found = describe_classic(view.committed, view.volatile, group_id)
                group = replace(found, authorized_operations=operations)
            except Refusal as refusal:
                group = refused_group(group_id, refusal)
            groups.append(group)
            await turns.done_with_id(group_id, len(group.members))
        return DescribeGroupsResponse(groups=tuple(groups))

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


def refused_group(group_id: str, refusal: Refusal) -> DescribedGroup:
    # As in Kafka, a group that does not exist is dead.
    is_dead = refusal.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    return DescribedGroup(
        error_code=refusal.error_code,
        error_message=refusal.message,
        group_id=group_id,
        group_state=ClassicGroupState.DEAD.value if is_dead else "",
        protocol_type="",
        protocol_data="",
        members=(),
    )


# --- Kafka's protocol --------------------------------------------------------------------------------------------


def descriptions_to_version(
    request: DescribeGroupsRequest, described: DescribeGroupsResponse, version: int
) -> DescribeGroupsResponse:
    """Return a group that does not exist as a dead one and no error, in versions before that error (KIP-1043)."""
    if version >= _NOT_FOUND_FROM:
        return described
    operations = on_group(asked=request.include_authorized_operations)
    return DescribeGroupsResponse(
        groups=tuple(
            replace(group, error_code=ErrorCode.NONE, authorized_operations=operations)
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            else group
            for group in described.groups
        )
    )
