"""InitProducerId: give a producer its id and epoch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.coordinator.transactions.commands import InitProducerId
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerId
from kraft.server.kafka_listener.apis.transaction_producers import code_for, producer_of
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_PRODUCER_FENCED_FROM: Final = 4


class InitProducerIdApi:
    def __init__(
        self,
        new_producer_id: Callable[[], Awaitable[ProducerId]],
        init_transactional: Callable[[InitProducerId], Awaitable[ProducerIdAndEpoch]],
    ) -> None:
        self._new_producer_id = new_producer_id
        self._init_transactional = init_transactional

    async def __call__(self, request: InitProducerIdRequest, call: RequestContext) -> InitProducerIdResponse:
        if (request.producer_id < 0) != (request.producer_epoch < 0):
            return _refused(ErrorCode.INVALID_REQUEST)
        if request.transactional_id is None:
            return await self._idempotent()
        expected = producer_of(request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None
        command = InitProducerId(
            transactional_id=request.transactional_id,
            timeout_ms=request.transaction_timeout_ms,
            expected=expected,
            enable_2pc=request.enable2_pc,
            keep_prepared=request.keep_prepared_txn,
        )
        try:
            producer = await self._init_transactional(command)
        except Refusal as refusal:
            return _refused(code_for(refusal, call.version >= _PRODUCER_FENCED_FROM))
        return InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=producer.producer_id, producer_epoch=producer.epoch
        )

    async def _idempotent(self) -> InitProducerIdResponse:
        try:
            producer_id = await self._new_producer_id()
        except Refusal:
            # Controllers fail to give ids only for a while. Kafka answers with this retriable code, and some clients
            # stop on any other one.
            return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)
