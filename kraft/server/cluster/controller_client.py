"""Client of the active controller: calls one controller after the other until one answers as the active one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import cycle
from typing import Any, Final, TypeAlias, TypeVar

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.rpc.call import Call, ServedCall
from kraft.rpc.local_peer import LocalPeer
from kraft.rpc.peers import Peer, PeerConnections, Unreachable
from kraft.server.config.values import Voter
from kraft.server.loop.background import cancelled
from kraft.server.loop.periods import loop_time_s

ATTEMPT_TIMEOUT_S: Final = 2.0
NEXT_AFTER_S: Final = 0.3
"""A controller that has not answered after this time may be down, unreachable or busy: the next one is called too."""

FIRST_PAUSE_S: Final = 0.01
PAUSE_AFTER_ALL_FAILED_S: Final = 0.1
"""Longest pause between two rounds of calls. The first one is short, because a controller may be about to become
active, as when its cluster is new; each pause is twice as long as the one before."""


Request = TypeVar("Request")
Response = TypeVar("Response")

ControllerPeer: TypeAlias = Peer | LocalPeer

Attempt = Callable[[Voter, float], Coroutine[Any, Any, Response]]
"""Calls this controller, within so many seconds."""


class NoController(Exception):
    """No controller answered as the active one before the deadline."""


class ControllerClient:
    """Calls the active controller, and remembers which one it is."""

    def __init__(
        self,
        voters: Sequence[Voter],
        own_id: BrokerId,
        connections: PeerConnections,
        own_controller: Sequence[ServedCall],
    ) -> None:
        """`own_controller` has the calls of the controller in this process, if there is one."""
        # A combined node calls itself first.
        self._voters = sorted(voters, key=lambda voter: voter.node_id != own_id)
        assert not own_controller or self._voters[0].node_id == own_id, "a controller is one of the voters"
        # Otherwise the controller with the lowest id would send the metadata to every broker that is no controller.
        begin = 0 if self._voters[0].node_id == own_id else own_id % len(self._voters)
        self._followed_in_order = self._voters[begin:] + self._voters[:begin]
        self._connections = connections
        self._own = LocalPeer(self._voters[0].address, own_controller) if own_controller else None
        self._active = 0
        self._heard_at_s: dict[int, float] = {}

    @property
    def active_id(self) -> int:
        """Node id of the controller that was the last to answer as the active one."""
        return self._voters[self._active].node_id

    def peers(self) -> list[ControllerPeer]:
        """Return every controller as a source of metadata, this node's own first, or else one chosen by node id."""
        return [self._peer(voter) for voter in self._followed_in_order]

    def active_peer(self) -> ControllerPeer:
        """Return the controller that was the last to answer as the active one."""
        return self._peer(self._voters[self._active])

    def heard_ms_ago(self, node_id: int) -> int:
        """Return the time since this controller last answered a call; -1 if it never did."""
        heard_at_s = self._heard_at_s.get(node_id)
        return -1 if heard_at_s is None else int(1_000 * (loop_time_s() - heard_at_s))

    async def ask_each(
        self, call: Call[Request, Response], request: Request, timeout_s: float
    ) -> dict[int, Response | None]:
        """Call every controller at the same time; return the responses by node id, None for those without one."""

        async def ask(voter: Voter) -> Response | None:
            try:
                response = await self._peer(voter).call(call, request, timeout_s)
            except (Unreachable, Refusal):
                return None
            self._heard(voter)
            return response

        responses = await asyncio.gather(*map(ask, self._voters))
        return {voter.node_id: response for voter, response in zip(self._voters, responses, strict=True)}

    async def call(
        self,
        call: Call[Request, Response],
        request: Request,
        deadline_s: float,
        *,
        attempt_timeout_s: float = ATTEMPT_TIMEOUT_S,
    ) -> Response:
        """Call the active controller; return its response with any error code. Raises NoController, or its Refusal.

        A call whose answer was lost is repeated: every request may be sent again.
        """

        async def attempt(voter: Voter, left_s: float) -> Response:
            answer = await self._peer(voter).call(call, request, min(left_s, attempt_timeout_s))
            # Calls of brokers are answered with an error code, those for operators with a Refusal.
            if getattr(answer, "error_code", None) == ErrorCode.NOT_CONTROLLER:
                raise Refusal(ErrorCode.NOT_CONTROLLER, f"{voter} is not the active controller")
            return answer

        return await self._first_active(attempt, deadline_s)

    async def _first_active(self, attempt: Attempt[Response], deadline_s: float) -> Response:
        pending: dict[Voter, asyncio.Task[Response]] = {}
        try:
            return await self._call_in_turn(attempt, deadline_s, pending)
        finally:
            await cancelled(pending.values())

    async def _call_in_turn(
        self, attempt: Attempt[Response], deadline_s: float, pending: dict[Voter, asyncio.Task[Response]]
    ) -> Response:
        """Call the controllers in turn; `pending` has the calls without a response yet."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + deadline_s
        reasons: dict[Voter, str] = {}
        failed: set[Voter] = set()
        pause_s = FIRST_PAUSE_S
        # Every call has its own cycle: concurrent calls with a common one would skip controllers.
        order = cycle(self._voters[self._active :] + self._voters[: self._active])
        while (left_s := deadline - loop.time()) > 0:
            voter = next(order)
            # A controller that has not answered yet is not called twice: it may be working on the call.
            wait_s = PAUSE_AFTER_ALL_FAILED_S if voter in pending else NEXT_AFTER_S
            if voter not in pending:
                pending[voter] = loop.create_task(attempt(voter, left_s))
            await asyncio.wait(pending.values(), timeout=min(left_s, wait_s), return_when=asyncio.FIRST_COMPLETED)
            for answered in [each for each, task in pending.items() if task.done()]:
                task = pending.pop(answered)
                if not isinstance(task.exception(), Unreachable):
                    self._heard(answered)
                reason = _failure(answered, task)
                if reason is None:
                    self._active = self._voters.index(answered)
                    return task.result()
                reasons[answered] = reason
                failed.add(answered)
            if len(failed) == len(self._voters):
                failed.clear()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_AFTER_ALL_FAILED_S)
        reasons |= {voter: f"{voter} has not answered" for voter in pending}
        raise NoController(f"no controller is active: {'; '.join(reasons.values()) or 'no time left for a call'}")

    def _heard(self, voter: Voter) -> None:
        self._heard_at_s[voter.node_id] = loop_time_s()

    def _peer(self, voter: Voter) -> ControllerPeer:
        if self._own is not None and voter is self._voters[0]:
            return self._own
        return self._connections.peer(voter.address)


def _failure(voter: Voter, task: asyncio.Task[Response]) -> str | None:
    """Return why another controller must be called; None if this one answered as the active one. Raises its Refusal."""
    try:
        task.result()
    except Unreachable as error:
        return str(error)
    except Refusal as refusal:
        if refusal.error_code is not ErrorCode.NOT_CONTROLLER:
            raise
        return f"{voter} is not the active controller"
    return None
