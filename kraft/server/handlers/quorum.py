"""DescribeQuorum: forwarded to the active controller, which alone knows the positions of the others."""

from __future__ import annotations

from typing import Final

from kraft.model.describe_quorum import DescribeQuorumRequest, QuorumDescription
from kraft.model.errors import ErrorCode
from kraft.rpc.call import Served
from kraft.rpc.calls import DESCRIBE_QUORUM
from kraft.server.cluster.controller_client import ControllerClient, NoController

DESCRIBE_MAX_S: Final = 5.0


class QuorumHandler:
    def __init__(self, controllers: ControllerClient) -> None:
        self._controllers = controllers

    async def describe(self, request: DescribeQuorumRequest) -> QuorumDescription:
        try:
            return await self._controllers.call(DESCRIBE_QUORUM, request, DESCRIBE_MAX_S)
        except NoController as error:
            return QuorumDescription(error_code=ErrorCode.NOT_CONTROLLER, error_message=str(error))

    def served(self) -> list[Served]:
        return [DESCRIBE_QUORUM.served_by(self.describe)]
