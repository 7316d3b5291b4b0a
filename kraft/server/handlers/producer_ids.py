"""InitProducerId: give each producer an id that is unique in the cluster, from blocks that the controller allocates."""

from __future__ import annotations

import asyncio
from typing import Final

from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.model.errors import ErrorCode
from kraft.model.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft.rpc.call import Served
from kraft.rpc.calls import INIT_PRODUCER_ID
from kraft.rpc.cluster_calls import ALLOCATE_PRODUCER_IDS
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.own_registration import OwnRegistration

BLOCK_MAX_S: Final = 8.0
WAIT_MAX_S: Final = 10.0
"""Maximum wait of one producer, including the wait behind others."""


class ProducerIdHandler:
    def __init__(self, registration: OwnRegistration, controllers: ControllerClient) -> None:
        self._registration = registration
        self._controllers = controllers
        self._next, self._end = 0, 0
        self._refilling = asyncio.Lock()

    async def handle(self, _: InitProducerIdRequest) -> InitProducerIdResponse:
        try:
            async with asyncio.timeout(WAIT_MAX_S), self._refilling:
                if self._next == self._end and (refused := await self._refill()) is not None:
                    return refused
                producer_id, self._next = self._next, self._next + 1
        except TimeoutError:
            late = "timed out waiting for a block of producer ids from the controller: retry"
            return InitProducerIdResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=late)
        return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)

    async def _refill(self) -> InitProducerIdResponse | None:
        """Fetch the next block. Returns the error response for the producer if that fails, otherwise None."""
        request = AllocateProducerIdsRequest(
            broker_id=self._registration.broker_id, broker_epoch=self._registration.broker_epoch
        )
        try:
            block = await self._controllers.call(ALLOCATE_PRODUCER_IDS, request, BLOCK_MAX_S)
        except NoController as error:
            return InitProducerIdResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=str(error))
        if block.error_code is not ErrorCode.NONE:
            return InitProducerIdResponse(error_code=block.error_code, error_message=block.error_message)
        self._next, self._end = block.first, block.first + block.count
        return None

    def served(self) -> list[Served]:
        return [INIT_PRODUCER_ID.served_by(self.handle)]
