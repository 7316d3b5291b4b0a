"""EndTxn: commit or abort a transaction. Since version 5 the producer gets its identity for the next one (KIP-890)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.coordinator.transactions.commands import EndTransaction
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.transaction_producers import code_for, producer_of, transaction_version
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.end_txn import EndTxnRequest, EndTxnResponse

_BUMPS_FROM: Final = 5
_PRODUCER_FENCED_FROM: Final = 2


class EndTxnApi:
    def __init__(self, end: Callable[[EndTransaction], Awaitable[ProducerIdAndEpoch]]) -> None:
        self._end = end

    async def __call__(self, request: EndTxnRequest, call: RequestContext) -> EndTxnResponse:
        command = EndTransaction(
            transactional_id=request.transactional_id,
            producer=producer_of(request.producer_id, request.producer_epoch),
            commit=request.committed,
            client_version=transaction_version(call.version >= _BUMPS_FROM),
        )
        try:
            after = await self._end(command)
        except Refusal as refusal:
            return EndTxnResponse(error_code=_code(refusal, call.version))
        return EndTxnResponse(error_code=ErrorCode.NONE, producer_id=after.producer_id, producer_epoch=after.epoch)


def _code(refusal: Refusal, version: int) -> ErrorCode:
    """Return the error code that a client of this version understands.

    After a transaction that the coordinator has aborted, Kafka Streams goes on with another producer if its own was
    fenced, and ends at every other error. (KAFKA-20785)
    """
    if refusal.error_code is ErrorCode.TRANSACTION_ABORTABLE:
        return ErrorCode.PRODUCER_FENCED
    return code_for(refusal, version >= _PRODUCER_FENCED_FROM)
