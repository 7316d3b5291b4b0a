"""How a broker reaches the active controller: it asks one after the other until one answers as the active one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import cycle
from typing import Any, Final, TypeAlias, TypeVar

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.rpc.call import Call, Served
from kraft.rpc.local_peer import LocalPeer
from kraft.rpc.peers import Connections, Peer, Unreachable
from kraft.server.config.values import Voter

ATTEMPT_TIMEOUT_S: Final = 2.0
PATIENCE_S: Final = 0.3
"""Who has not answered by then may be stopped or cut off, or may only be busy: the others are asked beside."""

PAUSE_AFTER_ALL_FAILED_S: Final = 0.1


Request = TypeVar("Request")
Response = TypeVar("Response")

ControllerPeer: TypeAlias = Peer | LocalPeer


class NoController(Exception):
    """No controller answered as the active one before the deadline."""


class ControllerClient:
    def __init__(
        self, voters: Sequence[Voter], own_id: BrokerId, connections: Connections, own_controller: Sequence[Served] = ()
    ) -> None:
        """`own_controller` are the calls of the controller in this process, where there is one."""
        # A combined node asks itself first.
        self._voters = sorted(voters, key=lambda voter: voter.node_id != own_id)
        assert not own_controller or self._voters[0].node_id == own_id, "a controller is one of the voters"
        # Else the node with the lowest id would send the metadata to every broker that is no controller.
        begin = 0 if self._voters[0].node_id == own_id else own_id % len(self._voters)
        self._followed_in_order = self._voters[begin:] + self._voters[:begin]
        self._connections = connections
        self._own = LocalPeer(self._voters[0].address, own_controller) if own_controller else None
        self._active = 0

    @property
    def active_id(self) -> int:
        """The controller that answered as the active one last."""
        return self._voters[self._active].node_id

    def peers(self) -> list[ControllerPeer]:
        """Every controller, in the order in which to follow one: this node's own, or one of all by this node's id."""
        return [self._peer(voter) for voter in self._followed_in_order]

    def active_peer(self) -> ControllerPeer:
        """The controller that answered as the active one last."""
        return self._peer(self._voters[self._active])

    async def call(
        self,
        call: Call[Request, Response],
        request: Request,
        deadline_s: float,
        *,
        attempt_timeout_s: float = ATTEMPT_TIMEOUT_S,
    ) -> Response:
        """The active controller's answer, whatever its error code. Raises NoController, or the Refusal it answers with.

        An attempt whose answer was lost is made again: every request may be repeated.
        """

        async def attempt(voter: Voter, left_s: float) -> Response:
            answer = await self._peer(voter).call(call, request, min(left_s, attempt_timeout_s))
            # Brokers' own calls are answered with a code, those for operators with a Refusal.
            if getattr(answer, "error_code", None) is ErrorCode.NOT_CONTROLLER:
                raise Refusal(ErrorCode.NOT_CONTROLLER, f"{voter} is not the active controller")
            return answer

        return await self._first_active(attempt, deadline_s)

    async def _first_active(
        self, attempt: Callable[[Voter, float], Coroutine[Any, Any, Response]], deadline_s: float
    ) -> Response:
        asked: dict[Voter, asyncio.Task[Response]] = {}
        try:
            return await self._ask_around(attempt, deadline_s, asked)
        finally:
            for task in asked.values():
                task.cancel()
            await asyncio.gather(*asked.values(), return_exceptions=True)

    async def _ask_around(
        self,
        attempt: Callable[[Voter, float], Coroutine[Any, Any, Response]],
        deadline_s: float,
        asked: dict[Voter, asyncio.Task[Response]],
    ) -> Response:
        """`asked` are those whose answers are not there yet."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + deadline_s
        reasons: dict[Voter, str] = {}
        failed: set[Voter] = set()
        # Every call goes round by itself: calls at once, taking steps together, would pass a controller by.
        order = cycle(self._voters[self._active :] + self._voters[: self._active])
        while (left_s := deadline - loop.time()) > 0:
            voter = next(order)
            # One that still owes an answer is not asked twice: it may be at work.
            wait_s = PAUSE_AFTER_ALL_FAILED_S if voter in asked else PATIENCE_S
            if voter not in asked:
                asked[voter] = loop.create_task(attempt(voter, left_s))
            await asyncio.wait(asked.values(), timeout=min(left_s, wait_s), return_when=asyncio.FIRST_COMPLETED)
            for answered in [each for each, task in asked.items() if task.done()]:
                task = asked.pop(answered)
                reason = _why_not(answered, task)
                if reason is None:
                    self._active = self._voters.index(answered)
                    return task.result()
                reasons[answered] = reason
                failed.add(answered)
            if len(failed) == len(self._voters):
                failed.clear()
                await asyncio.sleep(PAUSE_AFTER_ALL_FAILED_S)
        reasons |= {voter: f"{voter} has not answered" for voter in asked}
        raise NoController(f"no controller is active: {'; '.join(reasons.values()) or 'no time left to ask'}")

    def _peer(self, voter: Voter) -> ControllerPeer:
        if self._own is not None and voter is self._voters[0]:
            return self._own
        return self._connections.peer(voter.address)


def _why_not(voter: Voter, task: asyncio.Task[Response]) -> str | None:
    """Why others have to be asked; None when this one answered as the active controller. Raises any other failure."""
    try:
        task.result()
    except Unreachable as error:
        return str(error)
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.NOT_CONTROLLER:
            raise
        return f"{voter} is not the active controller"
    return None
