"""InitProducerId: an id for an idempotent producer. Transactional ones are refused, for now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import init_producer_id as values
from kraft.model.errors import ErrorCode
from kraft.rpc.refusal_log import RefusalLog
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class InitProducerIdApi:
    def __init__(
        self,
        handle: Callable[[values.InitProducerIdRequest], Awaitable[values.InitProducerIdResponse]],
        monotonic_ms: Callable[[], int],
    ) -> None:
        self._handle = handle
        self._refusals = RefusalLog(monotonic_ms)

    async def __call__(self, request: InitProducerIdRequest, call: RequestContext) -> InitProducerIdResponse:
        if request.transactional_id is not None:
            # The answer has no room for a message, so the node's log says it.
            self._refusals.log(call.peer, "a transactional producer: transactions are not built yet")
            return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
        if (request.producer_id < 0) != (request.producer_epoch < 0):
            return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
        answer = await self._handle(values.InitProducerIdRequest())
        if answer.error_code is not ErrorCode.NONE:
            # Whatever keeps the controllers from giving ids passes, and this is the code that says so to every client:
            # Kafka answers with it, and some clients end on any other one.
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=-1)
        return InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch
        )
