"""InitProducerId: give a producer its id and epoch. Those of a transactional id come from its coordinator."""

from __future__ import annotations

from kraft.coordinator.transactions.commands import InitProducerId
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerEpoch, ProducerId
from kraft.model.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft.rpc.call import Served
from kraft.rpc.calls import INIT_PRODUCER_ID
from kraft.server.cluster.producer_ids import ProducerIds
from kraft.server.handlers.transactions import TransactionsHandler


class ProducerIdHandler:
    def __init__(self, producer_ids: ProducerIds, transactions: TransactionsHandler) -> None:
        self._producer_ids = producer_ids
        self._transactions = transactions

    async def new(self) -> ProducerId:
        """Return an id for an idempotent producer. Raises Refusal."""
        return await self._producer_ids.new()

    async def handle(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        try:
            producer = await self._producer(request)
        except Refusal as refusal:
            return InitProducerIdResponse(error_code=refusal.error_code, error_message=refusal.message)
        return InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=producer.producer_id, producer_epoch=producer.epoch
        )

    async def _producer(self, request: InitProducerIdRequest) -> ProducerIdAndEpoch:
        if not request.transactional_id:
            return ProducerIdAndEpoch(await self.new(), ProducerEpoch(0))
        return await self._transactions.init_producer_id(
            InitProducerId(
                transactional_id=request.transactional_id,
                timeout_ms=request.transaction_timeout_ms,
                expected=_expected(request),
                is_temporary=request.is_temporary,
            )
        )

    def served(self) -> list[Served]:
        return [INIT_PRODUCER_ID.served_by(self.handle)]


def _expected(request: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    producer_id, epoch = request.producer_id, request.producer_epoch
    if (producer_id is None) != (epoch is None):
        raise Refusal(ErrorCode.INVALID_REQUEST, "the request has a producer id or an epoch: set both, or none")
    if producer_id is None or epoch is None:
        return None
    return ProducerIdAndEpoch(ProducerId(producer_id), ProducerEpoch(epoch))
