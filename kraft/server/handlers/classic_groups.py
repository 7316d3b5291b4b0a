"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: members of groups of the classic protocol.

JoinGroup and SyncGroup wait for other members, as long as the rebalance takes. A client that has gone does not end the
wait: the member stays in the group until its session ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from kraft.coordinator.classic.messages import JoinGroup, MemberIdRequired
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.request_context import RequestContext
from kraft.server.coordinator.group_coordinators import GroupCoordinators
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import replace
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit on the memory of requests that wait for a rebalance."""

REQUEST_BYTES: Final = 2 * 1024
"""Memory of a waiting request besides what assignors read and return."""

LEAVING_AT_ONCE: Final = 200
"""Members of a LeaveGroup that are removed in one decision: an administrator may name thousands."""

ITEM_BYTES: Final = 256
"""Memory of one protocol or assignment besides its content."""

_SEVERAL_LEAVE_FROM: Final = 3
"""First version of LeaveGroup with several members, each with an error code of its own (KIP-345)."""

_SYNC_PROTOCOL_FROM: Final = 5
"""First version of SyncGroup in which the request has to say its protocol (KIP-559)."""

_NO_PROTOCOL_FROM: Final = 7
"""First version of JoinGroup in which the protocol may be null."""


class ClassicGroupsHandler:
    def __init__(self, coordinators: GroupCoordinators) -> None:
        self._coordinators = coordinators
        self.waiting_bytes = 0
        """Memory of the requests that wait now."""

    async def join(self, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
        """Return the generation that the member belongs to, or the member id to join with. Raises Refusal."""
        command = JoinGroup(request, context)
        try:
            with self._waiting(each.metadata for each in request.protocols):
                joined: JoinGroupResponse = await self._coordinators.decide(request.group_id, command)
        except MemberIdRequired as required:
            return _not_joined(required.error_code, required.member_id)
        return joined

    async def sync(self, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
        """Return the assignment of the member. Raises Refusal."""
        if context.version >= _SYNC_PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the request does not say the member's protocol")
        with self._waiting(each.assignment for each in request.assignments):
            synced: SyncGroupResponse = await self._coordinators.decide(request.group_id, request)
        return synced

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        try:
            accepted: HeartbeatResponse = await self._coordinators.decide(request.group_id, request)
        except Refusal as refusal:
            # As in Kafka: the load restores the group with all its members, and starts their sessions again.
            if refusal.error_code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or not request.group_id:
                raise
            return HeartbeatResponse(error_code=ErrorCode.NONE)
        return accepted

    async def leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """Let the members leave, some at a time, as if they were named in several requests. Raises Refusal."""
        turns, left = Turns(LEAVING_AT_ONCE), list[MemberResponse]()
        for start in range(0, max(len(request.members), 1), LEAVING_AT_ONCE):
            some = replace(request, members=request.members[start : start + LEAVING_AT_ONCE])
            part: LeaveGroupResponse = await self._coordinators.decide(request.group_id, some)
            left += part.members
            await turns.done(len(some.members))
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=tuple(left))

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


def _not_joined(error_code: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error_code, protocol_name=None, leader="", member_id=member_id, members=())


# --- Kafka's protocol --------------------------------------------------------------------------------------------


def join_refused(request: JoinGroupRequest, refusal: Refusal) -> JoinGroupResponse:
    """Return the response with the member id of the request; as in Kafka, a client that may not join gets none."""
    is_forbidden = refusal.error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    return _not_joined(refusal.error_code, "" if is_forbidden else request.member_id)


def join_to_version(_: JoinGroupRequest, joined: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Return the response with an empty protocol in versions before null."""
    is_null = joined.protocol_name is None and version < _NO_PROTOCOL_FROM
    return replace(joined, protocol_name="") if is_null else joined


def leave_from_version(request: LeaveGroupRequest, version: int) -> LeaveGroupRequest:
    """Return the request with its member among several."""
    if version >= _SEVERAL_LEAVE_FROM:
        return request
    return replace(request, members=(MemberIdentity(member_id=request.member_id),))


def leave_to_version(_: LeaveGroupRequest, left: LeaveGroupResponse, version: int) -> LeaveGroupResponse:
    """Return the response with the error code of its only member."""
    if version >= _SEVERAL_LEAVE_FROM or left.error_code != ErrorCode.NONE:
        return left
    (only,) = left.members
    return replace(left, error_code=only.error_code)
