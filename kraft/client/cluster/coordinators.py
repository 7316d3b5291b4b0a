"""Calls to coordinators of groups and of transactional ids.

A coordinator is looked up before the first call, and after it moved or failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Any, Final, TypeVar

from kraft.client.cluster.any_broker import ATTEMPT_MAX_MS, AnyBroker, NoBrokerReachable, check, is_transient
from kraft.client.cluster.attempts import Attempts
from kraft.client.cluster.connections import Connections
from kraft.client.sans_io.backoff import Backoff
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.find_coordinator import CoordinatorType
from kraft.rpc.call import Call
from kraft.rpc.group_calls import FIND_COORDINATOR
from kraft.rpc.peers import Unreachable
from kraft.runtime.clock import Clock
from kraft.wire.schema.find_coordinator import Coordinator, FindCoordinatorRequest

Request = TypeVar("Request")
Response = TypeVar("Response")
Result = TypeVar("Result")

_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)

LOOK_AFTER_S: Final = 1.0
LOOK_EVERY_S_MAX: Final = 5.0
"""A coordinator that has not answered may be paused, and replaced meanwhile: how soon, and after a growing interval how
often at most, others are asked where it is.
"""

FOUND_AT_ONCE: Final = 1_000
"""Groups in one request for their coordinators."""


Check = Callable[[Response], None]
"""Raises the Refusal that a response contains, so that it counts as one of the whole request."""


def check_nothing(_: object) -> None:
    """Take every response."""


async def _ended(task: asyncio.Future[Any]) -> None:
    """Cancel the task, and wait for its end, whatever its outcome."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Coordinators:
    """The coordinators that one client talks to. Tasks may use it at the same time.

    With another `key_type`, a group id is an id of that kind.
    """

    def __init__(
        self,
        connections: Connections,
        any_broker: AnyBroker,
        backoff: Backoff,
        clock: Clock,
        key_type: CoordinatorType = CoordinatorType.GROUP,
    ) -> None:
        self._connections = connections
        self._any_broker = any_broker
        self._backoff = backoff
        self._clock = clock
        self._key_type = key_type
        self._known: dict[str, Coordinator] = {}
        self._ever_found: set[str] = set()

    async def call(
        self,
        group_id: str,
        call: Call[Request, Response],
        request: Request,
        deadline_ms: int,
        check_response: Check[Response] = check_nothing,
    ) -> Response:
        """Send the request, again if retries may help, and return the response. The deadline is on the client's clock.

        Raises the Refusal that retries do not end, or the last Refusal or Unreachable at the deadline.
        """

        async def attempt(timeout_ms: int) -> Response:
            return await self.attempt(group_id, call, request, timeout_ms, check_response)

        return await self.until(deadline_ms, attempt)

    async def until(
        self, deadline_ms: int, attempt: Callable[[int], Awaitable[Result]], also: Container[ErrorCode] = ()
    ) -> Result:
        """Return the result of the first attempt that succeeds; `attempt` gets a timeout in milliseconds.

        Refusals that are retriable, or in `also`, are retried. Raises what the last attempt raised.
        """
        started_ms = self._clock.monotonic_ms()
        attempts = Attempts(self._backoff, self._clock, deadline_ms)
        while True:
            left_ms = deadline_ms - self._clock.monotonic_ms()
            try:
                return await attempt(max(1, min(left_ms, ATTEMPT_MAX_MS)))
            except (Refusal, Unreachable) as error:
                is_final = isinstance(error, Refusal) and not (error.error_code.retriable or error.error_code in also)
                if is_final or not attempts.may_follow(error):
                    if isinstance(error, NoBrokerReachable):
                        # It tells the time of the last attempt alone.
                        raise NoBrokerReachable(error.reasons, self._clock.monotonic_ms() - started_ms) from None
                    raise
            await attempts.pause()

    async def attempt(
        self,
        group_id: str,
        call: Call[Request, Response],
        request: Request,
        timeout_ms: int,
        check_response: Check[Response] = check_nothing,
    ) -> Response:
        """Send the request once. Raises Refusal or Unreachable, also when the coordinator moves before it answers."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        found = await self.find(group_id, timeout_ms)
        left_ms = max(1, deadline_ms - self._clock.monotonic_ms())
        try:
            peer = self._connections.peer(f"{found.host}:{found.port}")
            answer = asyncio.ensure_future(peer.call(call, request, left_ms / 1000))
            try:
                await self._wait(answer, group_id, found)
                response = answer.result()
            finally:
                await _ended(answer)
            check_response(response)
        except Unreachable:
            self._forget(group_id, found)
            raise
        except Refusal as refusal:
            if refusal.error_code in _MOVED:
                self._forget(group_id, found)
            raise
        return response

    async def find(self, group_id: str, timeout_ms: int) -> Coordinator:
        """Return the coordinator, looked up if it is not known. Raises Refusal or Unreachable."""
        if group_id not in self._known:
            (found,) = await self._look_up((group_id,), timeout_ms)
            check(found.error_code, found.error_message)
            self._known[group_id] = found
        self._ever_found.add(group_id)
        return self._known[group_id]

    def may_have_reached(self, group_id: str) -> bool:
        """Return whether a coordinator was ever found, so that an attempt may have reached it."""
        return group_id in self._ever_found

    async def find_all(self, group_ids: Iterable[str], timeout_ms: int) -> None:
        """Look up the coordinators that are not known, many at a time; `find` raises the Refusals of single groups.

        Raises Refusal or Unreachable.
        """
        missing = [group_id for group_id in dict.fromkeys(group_ids) if group_id not in self._known]
        for start in range(0, len(missing), FOUND_AT_ONCE):
            found = await self._look_up(tuple(missing[start : start + FOUND_AT_ONCE]), timeout_ms)
            self._known.update({each.key: each for each in found if each.error_code == ErrorCode.NONE})

    async def _wait(self, answer: asyncio.Future[Any], group_id: str, coordinator: Coordinator) -> None:
        """Wait for the answer. Raises Unreachable if brokers name another coordinator, which is known from then on."""
        address, after_s = f"{coordinator.host}:{coordinator.port}", LOOK_AFTER_S
        while not (await asyncio.wait([answer], timeout=after_s))[0]:
            after_s = min(2 * after_s, LOOK_EVERY_S_MAX)
            look = asyncio.ensure_future(self._look_up((group_id,), ATTEMPT_MAX_MS, address))
            try:
                await asyncio.wait([answer, look], return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    return
                (found,) = look.result()
            except (Refusal, Unreachable):
                continue
            finally:
                await _ended(look)
            if found.error_code == ErrorCode.NONE and found != coordinator:
                self._known[group_id] = found
                raise Unreachable(address, "it is no longer the coordinator")

    async def _look_up(self, group_ids: tuple[str, ...], timeout_ms: int, hanging: str = "") -> tuple[Coordinator, ...]:
        request = FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=group_ids)

        async def ask(address: str, timeout_s: float) -> tuple[Coordinator, ...]:
            found = (await self._connections.peer(address).call(FIND_COORDINATOR, request, timeout_s)).coordinators
            for each in found:
                code = error_code(each.error_code)
                if is_transient(code):
                    raise Refusal(code, each.error_message or "")
            return found

        return await self._any_broker.call(ask, timeout_ms, hanging=hanging)

    def _forget(self, group_id: str, coordinator: Coordinator) -> None:
        # Another task may have found the next coordinator already.
        if self._known.get(group_id) == coordinator:
            del self._known[group_id]
