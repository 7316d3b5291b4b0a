"""Heartbeat: keep the session of a member of a classic group alive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model.classic_groups import Heartbeat, HeartbeatAccepted
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse


class HeartbeatApi:
    def __init__(self, handle: Callable[[Heartbeat], Awaitable[HeartbeatAccepted]]) -> None:
        self._handle = handle

    async def __call__(self, request: HeartbeatRequest, call: RequestContext) -> HeartbeatResponse:
        command = Heartbeat(
            group_id=request.group_id,
            generation=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
        )
        try:
            await self._handle(command)
        except Refusal as refusal:
            return HeartbeatResponse(error_code=refusal.error_code)
        return HeartbeatResponse(error_code=ErrorCode.NONE)
