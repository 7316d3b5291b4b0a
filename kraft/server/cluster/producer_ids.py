"""Producer ids, each unique in the cluster, from blocks that the controller allocates."""

from __future__ import annotations

import asyncio
from typing import Final

from kraft.model.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import ProducerId
from kraft.rpc.cluster_calls import ALLOCATE_PRODUCER_IDS
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.own_registration import OwnRegistration

BLOCK_MAX_S: Final = 8.0
WAIT_MAX_S: Final = 10.0
"""Maximum wait of one producer, including the wait behind others."""


class ProducerIds:
    def __init__(self, registration: OwnRegistration, controllers: ControllerClient) -> None:
        self._registration = registration
        self._controllers = controllers
        self._next, self._end = 0, 0
        self._refilling = asyncio.Lock()

    async def new(self) -> ProducerId:
        """Return an id that nobody else has. Raises Refusal COORDINATOR_LOAD_IN_PROGRESS.

        Controllers fail to give ids only for a while. Kafka answers with this retriable code, and some clients stop on
        any other one.
        """
        try:
            async with asyncio.timeout(WAIT_MAX_S), self._refilling:
                if self._next == self._end:
                    await self._refill()
                producer_id, self._next = self._next, self._next + 1
        except TimeoutError:
            raise _not_now("timed out waiting for a block of producer ids from the controller: retry") from None
        return ProducerId(producer_id)

    async def _refill(self) -> None:
        """Fetch the next block."""
        request = AllocateProducerIdsRequest(
            broker_id=self._registration.broker_id, broker_epoch=self._registration.broker_epoch
        )
        try:
            block = await self._controllers.call(ALLOCATE_PRODUCER_IDS, request, BLOCK_MAX_S)
        except NoController as error:
            raise _not_now(str(error)) from None
        if block.error_code is not ErrorCode.NONE:
            raise _not_now(f"{block.error_code.name}: {block.error_message}")
        self._next, self._end = block.first, block.first + block.count


def _not_now(reason: str) -> Refusal:
    return Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, reason)
