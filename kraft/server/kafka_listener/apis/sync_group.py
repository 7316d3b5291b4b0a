"""SyncGroup: get the own assignment; the leader sends those of all members."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.model.classic_groups import SyncedGroup, SyncGroup
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_FROM: Final = 5
"""First version in which the request has to say its protocol (KIP-559)."""


class SyncGroupApi:
    def __init__(self, handle: Callable[[SyncGroup], Awaitable[SyncedGroup]]) -> None:
        self._handle = handle

    async def __call__(self, request: SyncGroupRequest, call: RequestContext) -> SyncGroupResponse:
        if call.version >= _PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
            return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
        command = SyncGroup(
            group_id=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol=request.protocol_name,
            assignments={each.member_id: bytes(each.assignment) for each in request.assignments},
        )
        try:
            synced = await self._handle(command)
        except Refusal as refusal:
            return SyncGroupResponse(error_code=refusal.error_code, assignment=b"")
        return SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=synced.protocol_type,
            protocol_name=synced.protocol,
            assignment=synced.assignment,
        )
