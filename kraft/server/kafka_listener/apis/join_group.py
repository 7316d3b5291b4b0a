"""JoinGroup: become a member of a group of the classic protocol, or stay one in its next generation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.coordinator.classic.messages import JoinGroup
from kraft.model.classic_groups import JoinedGroup, OfferedProtocol
from kraft.model.errors import Refusal
from kraft.server.kafka_listener.encoded_responses import encoded_in_thread
from kraft.server.kafka_listener.requests import EncodedMessage, RequestContext
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

METADATA_ON_LOOP_MAX: Final = 4 << 20
"""A leader's response with more bytes of metadata is encoded in a thread: there may be 128 MiB."""

_MEMBER_ID_REQUIRED_FROM: Final = 4
"""First version in which a new member is given an id to join with (KIP-394)."""

_NO_PROTOCOL_FROM: Final = 7
"""First version in which the protocol may be null."""

_SKIPS_ASSIGNMENT_FROM: Final = 9
"""First version in which a leader can skip the assignment (KIP-814)."""


class JoinGroupApi:
    def __init__(self, handle: Callable[[JoinGroup], Awaitable[JoinedGroup]]) -> None:
        self._handle = handle

    async def __call__(self, request: JoinGroupRequest, call: RequestContext) -> JoinGroupResponse | EncodedMessage:
        no_protocol = None if call.version >= _NO_PROTOCOL_FROM else ""
        try:
            joined = await self._handle(_command(request, call))
        except Refusal as refusal:
            return JoinGroupResponse(
                error_code=refusal.error_code,
                protocol_name=no_protocol,
                leader="",
                member_id=request.member_id,
                members=(),
            )
        response = JoinGroupResponse(
            error_code=joined.error_code,
            generation_id=joined.generation,
            protocol_type=joined.protocol_type,
            protocol_name=no_protocol if joined.protocol is None else joined.protocol,
            leader=joined.leader,
            skip_assignment=joined.skip_assignment,
            member_id=joined.member_id,
            members=tuple(
                JoinGroupResponseMember(
                    member_id=each.member_id, group_instance_id=each.group_instance_id, metadata=each.metadata
                )
                for each in joined.members
            ),
        )
        size = sum(len(each.metadata) for each in joined.members)
        return response if size < METADATA_ON_LOOP_MAX else await encoded_in_thread(response, call.version)


def _command(request: JoinGroupRequest, call: RequestContext) -> JoinGroup:
    return JoinGroup(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=call.client_id,
        client_host=call.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(OfferedProtocol(each.name, bytes(each.metadata)) for each in request.protocols),
        reason=request.reason or "",
        member_id_required=call.version >= _MEMBER_ID_REQUIRED_FROM,
        can_skip_assignment=call.version >= _SKIPS_ASSIGNMENT_FROM,
    )
