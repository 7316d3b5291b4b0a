"""AddOffsetsToTxn: add the partition of a group's offsets to a transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.coordinator.transactions.commands import AddOffsets
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.transaction_producers import code_for, producer_of
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_PRODUCER_FENCED_FROM: Final = 2


class AddOffsetsToTxnApi:
    def __init__(self, add: Callable[[AddOffsets], Awaitable[None]]) -> None:
        self._add = add

    async def __call__(self, request: AddOffsetsToTxnRequest, call: RequestContext) -> AddOffsetsToTxnResponse:
        command = AddOffsets(
            transactional_id=request.transactional_id,
            producer=producer_of(request.producer_id, request.producer_epoch),
            group_id=request.group_id,
        )
        try:
            await self._add(command)
        except Refusal as refusal:
            return AddOffsetsToTxnResponse(error_code=code_for(refusal, call.version >= _PRODUCER_FENCED_FROM))
        return AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)
