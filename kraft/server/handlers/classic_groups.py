"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: members of groups of the classic protocol.

JoinGroup and SyncGroup wait for other members, as long as the rebalance takes. A client that has gone does not end the
wait: the member stays in the group until its session ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from msgspec.structs import asdict, replace

from kraft.coordinator.classic.messages import JoinGroup, MemberIdRequired
from kraft.model.classic_groups import (
    Heartbeat,
    HeartbeatAccepted,
    JoinedGroup,
    JoinGroupRequest,
    LeaveGroup,
    LeftGroup,
    LeftMember,
    SyncedGroup,
    SyncGroup,
)
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.request_context import RequestContext
from kraft.rpc.call import Served
from kraft.rpc.group_calls import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.loop.turns import Turns

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit on the memory of requests that wait for a rebalance."""

REQUEST_BYTES: Final = 2 * 1024
"""Memory of a waiting request besides what assignors read and return."""

LEAVING_AT_ONCE: Final = 200
"""Members of a LeaveGroup that are removed in one decision: an administrator may name thousands."""

ITEM_BYTES: Final = 256
"""Memory of one protocol or assignment besides its content."""


class ClassicGroupsHandler:
    def __init__(self, coordinators: GroupCoordinators) -> None:
        self._coordinators = coordinators
        self.waiting_bytes = 0
        """Memory of the requests that wait now."""

    async def join(self, command: JoinGroup) -> JoinedGroup:
        """Return the generation that the member belongs to, or the member id to join with. Raises Refusal."""
        try:
            with self._waiting(each.metadata for each in command.protocols):
                joined: JoinedGroup = await self._coordinators.decide(command.group_id, command)
        except MemberIdRequired as required:
            return JoinedGroup(
                error_code=required.error_code,
                member_id=required.member_id,
                generation=-1,
                protocol_type=None,
                protocol=None,
                leader="",
            )
        return joined

    async def sync(self, command: SyncGroup) -> SyncedGroup:
        """Return the assignment of the member. Raises Refusal."""
        with self._waiting(command.assignments.values()):
            synced: SyncedGroup = await self._coordinators.decide(command.group_id, command)
        return synced

    async def heartbeat(self, command: Heartbeat) -> HeartbeatAccepted:
        try:
            accepted: HeartbeatAccepted = await self._coordinators.decide(command.group_id, command)
        except Refusal as refusal:
            # As in Kafka: the load restores the group with all its members, and starts their sessions again.
            if refusal.error_code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or not command.group_id:
                raise
            return HeartbeatAccepted()
        return accepted

    async def leave(self, command: LeaveGroup) -> LeftGroup:
        """Let the members leave, some at a time, as if they were named in several requests. Raises Refusal."""
        turns, left = Turns(LEAVING_AT_ONCE), list[LeftMember]()
        for start in range(0, max(len(command.members), 1), LEAVING_AT_ONCE):
            members = command.members[start : start + LEAVING_AT_ONCE]
            part: LeftGroup = await self._coordinators.decide(command.group_id, replace(command, members=members))
            left += part.members
            await turns.done(len(members))
        return LeftGroup(tuple(left))

    @contextmanager
    def _waiting(self, contents: Iterable[bytes]) -> Iterator[None]:
        size = REQUEST_BYTES + sum(ITEM_BYTES + len(content) for content in contents)
        if self.waiting_bytes + size > WAITING_BYTES_MAX:
            message = "too many members wait for their groups to rebalance: retry later"
            raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
        self.waiting_bytes += size
        try:
            yield
        finally:
            self.waiting_bytes -= size

    # --- gRPC ------------------------------------------------------------------------------------------------------

    def served(self) -> list[Served]:
        return [
            JOIN_GROUP.served_in_context_by(self._join_from, 9),
            SYNC_GROUP.served_by(self.sync),
            HEARTBEAT.served_by(self.heartbeat),
            LEAVE_GROUP.served_by(self.leave),
        ]

    async def _join_from(self, request: JoinGroupRequest, context: RequestContext) -> JoinedGroup:
        return await self.join(JoinGroup(**asdict(request), client_host=context.client_host))
