"""InitProducerId: give an idempotent producer an id. Transactional producers are refused: not supported yet."""

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
            # The response has no error message, so the node's log has the reason.
            self._refusals.log(call.peer, "transactions are not supported yet: unset transactional.id")
            return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
        if (request.producer_id < 0) != (request.producer_epoch < 0):
            return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=-1)
        answer = await self._handle(values.InitProducerIdRequest())
        if answer.error_code is not ErrorCode.NONE:
            # Controllers fail to give ids only for a while. Kafka answers with this retriable code, and some clients
            # stop on any other one.
            return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=-1)
        return InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch
        )
