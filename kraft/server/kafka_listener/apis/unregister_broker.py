"""UnregisterBroker: remove the registration of a broker that will not come back (KIP-631)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import brokers as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.timeouts import DEFAULT_TIMEOUT_MS
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

Handle = Callable[[values.UnregisterBrokerRequest], Awaitable[values.BrokerActionResult]]


class UnregisterBrokerApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: UnregisterBrokerRequest, call: RequestContext) -> UnregisterBrokerResponse:
        try:
            await self._handle(
                values.UnregisterBrokerRequest(broker_id=request.broker_id, timeout_ms=DEFAULT_TIMEOUT_MS)
            )
        except Refusal as refusal:
            return UnregisterBrokerResponse(error_code=refusal.error_code, error_message=refusal.message)
        return UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)
