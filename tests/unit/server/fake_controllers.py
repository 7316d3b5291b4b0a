"""A controller client whose active controller answers what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from kraft.model.errors import Refusal
from kraft.server.cluster.controller_client import ControllerClient, NoController


class FakeControllers:
    """Has every method of both peers. An answer may be a value, an exception, or a function of the request."""

    active_id = 1

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.takes_s = 0.0
        self.active: Any = None
        """What `active_peer` gives."""

    def as_client(self) -> ControllerClient:
        return cast(ControllerClient, self)

    def requests(self, name: str) -> list[Any]:
        return [request for asked, request in self.asked if asked == name]

    def active_peer(self) -> Any:
        return self.active

    async def call(self, ask: Callable[[Any, float], Awaitable[Any]], deadline_s: float) -> Any:
        try:
            async with asyncio.timeout(deadline_s):
                await asyncio.sleep(self.takes_s)
                return await ask(_Peer(self), deadline_s)
        except TimeoutError:
            raise NoController("no controller is active: no time left to ask") from None

    call_admin = call


class _Peer:
    def __init__(self, controllers: FakeControllers) -> None:
        self._controllers = controllers

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def answer(*arguments: Any) -> Any:
            request = arguments[0] if len(arguments) > 1 else None
            self._controllers.asked.append((name, request))
            given = self._controllers.answers[name]
            if isinstance(given, NoController | Refusal):
                raise given
            return given(request) if callable(given) else given

        return answer
