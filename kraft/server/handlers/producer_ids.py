"""InitProducerId: give a producer its id and epoch. Those of a transactional id come from its coordinator."""

from __future__ import annotations

from kraft.coordinator.transactions.commands import InitProducerId
from kraft.coordinator.transactions.transaction import ProducerIdAndEpoch
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.cluster.producer_ids import ProducerIds
from kraft.server.coordinator.transaction_coordinators import TransactionCoordinators
from kraft.wire.schema.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class ProducerIdHandler:
    def __init__(self, producer_ids: ProducerIds, coordinators: TransactionCoordinators) -> None:
        self._producer_ids = producer_ids
        self._coordinators = coordinators

    async def init(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """Return the identity of a producer. Raises Refusal."""
        return await self._init(request, is_temporary=False)

    async def init_temporary(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """Do the same; a transactional id is deleted as soon as its transaction has ended. Raises Refusal."""
        return await self._init(request, is_temporary=True)

    async def _init(self, request: InitProducerIdRequest, *, is_temporary: bool) -> InitProducerIdResponse:
        if (request.producer_id < 0) != (request.producer_epoch < 0):
            raise Refusal(ErrorCode.INVALID_REQUEST, "the request has a producer id or an epoch: set both, or none")
        if request.transactional_id is None:
            producer = ProducerIdAndEpoch.of(await self._producer_ids.new(), 0)
        else:
            command = init_command(request, request.transactional_id, is_temporary=is_temporary)
            producer = await self._coordinators.decide(command)
        return InitProducerIdResponse(
            error_code=ErrorCode.NONE, producer_id=producer.producer_id, producer_epoch=producer.epoch
        )


def init_command(request: InitProducerIdRequest, transactional_id: str, *, is_temporary: bool) -> InitProducerId:
    """Return the coordinator's command for a request with a transactional id."""
    expected = ProducerIdAndEpoch.of(request.producer_id, request.producer_epoch)
    return InitProducerId(
        transactional_id=transactional_id,
        timeout_ms=request.transaction_timeout_ms,
        expected=expected if request.producer_id >= 0 else None,
        is_temporary=is_temporary,
        enable_2pc=request.enable2_pc,
        keep_prepared=request.keep_prepared_txn,
    )
