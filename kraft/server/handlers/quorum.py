"""DescribeQuorum: asked of the active controller, which alone knows how far the others are."""

from __future__ import annotations

from typing import Final

from kraft.model.errors import ErrorCode
from kraft.model.requests import QuorumDescription
from kraft.server.cluster.controller_client import ControllerClient, NoController

DESCRIBE_MAX_S: Final = 5.0


class QuorumHandler:
    def __init__(self, controllers: ControllerClient) -> None:
        self._controllers = controllers

    async def describe(self) -> QuorumDescription:
        try:
            return await self._controllers.call_admin(
                lambda peer, timeout_s: peer.describe_quorum(timeout_s), DESCRIBE_MAX_S
            )
        except NoController as error:
            return QuorumDescription(error_code=ErrorCode.NOT_CONTROLLER, error_message=str(error))
