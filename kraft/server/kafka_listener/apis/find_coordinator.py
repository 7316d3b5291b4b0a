"""FindCoordinator: the brokers that coordinate groups; one in versions 0 to 3, many since version 4 (KIP-699)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.model import find_coordinator as values
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_MANY_FROM: Final = 4
_SHARE_FROM: Final = 6

_NO_ERROR: Final = "NONE"
"""The message of a response in versions 1 to 3 without an error, as in Kafka."""

Handle = Callable[[values.FindCoordinatorRequest], Awaitable[values.FindCoordinatorResponse]]


class FindCoordinatorApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: FindCoordinatorRequest, call: RequestContext) -> FindCoordinatorResponse:
        keys = request.coordinator_keys if call.version >= _MANY_FROM else (request.key,)
        found = await self._found(request.key_type, keys, call.version)
        if call.version >= _MANY_FROM:
            return FindCoordinatorResponse(
                coordinators=tuple(
                    Coordinator(
                        key=each.key,
                        node_id=each.node_id,
                        host=each.host,
                        port=each.port,
                        error_code=each.error_code,
                        error_message=each.error_message,
                    )
                    for each in found
                )
            )
        (coordinator,) = found
        return FindCoordinatorResponse(
            error_code=coordinator.error_code,
            error_message=coordinator.error_message or _NO_ERROR,
            node_id=coordinator.node_id,
            host=coordinator.host,
            port=coordinator.port,
        )

    async def _found(self, key_type: int, keys: tuple[str, ...], version: int) -> tuple[values.Coordinator, ...]:
        if key_type not in list(values.CoordinatorType) or (
            key_type == values.CoordinatorType.SHARE and version < _SHARE_FROM
        ):
            problem = f"coordinator type {key_type} does not exist in version {version} of FindCoordinator"
            return tuple(
                values.Coordinator(key=key, error_code=ErrorCode.INVALID_REQUEST, error_message=problem) for key in keys
            )
        asked = values.FindCoordinatorRequest(key_type=values.CoordinatorType(key_type), keys=keys)
        return (await self._handle(asked)).coordinators
