"""How a broker reaches the active controller: it asks one after the other until one answers as the active one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.rpc.cluster_peers import ControllerPeer
from kraft.rpc.peers import AdminPeer, Connections, Unreachable
from kraft.server.config_values import Voter

ATTEMPT_TIMEOUT_S: Final = 2.0
PAUSE_AFTER_ALL_FAILED_S: Final = 0.1


class Answer(Protocol):
    @property
    def error_code(self) -> ErrorCode: ...


AnyAnswer = TypeVar("AnyAnswer", bound=Answer)
Response = TypeVar("Response")


class NoController(Exception):
    """No controller answered as the active one before the deadline."""


class ControllerClient:
    def __init__(self, voters: Sequence[Voter], own_id: BrokerId, connections: Connections) -> None:
        # A combined node asks itself first.
        self._voters = sorted(voters, key=lambda voter: voter.node_id != own_id)
        self._connections = connections
        self._active = 0

    @property
    def active_id(self) -> int:
        """The controller that answered as the active one last."""
        return self._voters[self._active].node_id

    def peers(self) -> list[ControllerPeer]:
        """Every controller, this node's own first."""
        return [self._controller(voter) for voter in self._voters]

    async def call(self, ask: Callable[[ControllerPeer, float], Awaitable[AnyAnswer]], deadline_s: float) -> AnyAnswer:
        """The active controller's answer, whatever its error code. Raises NoController.

        An attempt whose answer was lost is made again: every request of brokers may be repeated.
        """

        async def attempt(voter: Voter, timeout_s: float) -> AnyAnswer:
            answer = await ask(self._controller(voter), timeout_s)
            if answer.error_code is ErrorCode.NOT_CONTROLLER:
                raise Refusal(answer.error_code, f"{voter} is not the active controller")
            return answer

        return await self._first_active(attempt, deadline_s)

    async def call_admin(self, ask: Callable[[AdminPeer, float], Awaitable[Response]], deadline_s: float) -> Response:
        """As `call`, for what operators ask for."""

        async def attempt(voter: Voter, timeout_s: float) -> Response:
            return await ask(self._connections.admin(voter.address), timeout_s)

        return await self._first_active(attempt, deadline_s)

    async def _first_active(
        self, attempt: Callable[[Voter, float], Awaitable[Response]], deadline_s: float
    ) -> Response:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + deadline_s
        reasons: dict[int, str] = {}
        while (left_s := deadline - loop.time()) > 0:
            voter = self._voters[self._active]
            try:
                return await attempt(voter, min(left_s, ATTEMPT_TIMEOUT_S))
            except Unreachable as error:
                reasons[voter.node_id] = str(error)
            except Refusal as refusal:
                if refusal.error_code is not ErrorCode.NOT_CONTROLLER:
                    raise
                reasons[voter.node_id] = f"{voter} is not the active controller"
            if self._voters[self._active] is voter:
                # Unless another call has moved on already: two steps at once would pass a controller by.
                self._active = (self._active + 1) % len(self._voters)
            if len(reasons) == len(self._voters):
                await asyncio.sleep(PAUSE_AFTER_ALL_FAILED_S)
        raise NoController(f"no controller is active: {'; '.join(reasons.values()) or 'no time left to ask'}")

    def _controller(self, voter: Voter) -> ControllerPeer:
        return ControllerPeer(voter.address, self._connections.channel(voter.address))
