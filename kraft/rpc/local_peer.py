"""The node itself, called as any other and without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import TypeVar

from kraft.rpc.call import Call, Served, ServerStream
from kraft.rpc.peers import Unreachable

Request = TypeVar("Request")
Response = TypeVar("Response")


class LocalPeer:
    """As a `Peer`: the same deadlines and Refusals."""

    def __init__(self, address: str, calls: Iterable[Served]) -> None:
        self.address = address
        self._handlers = {served.call: served.handler for served in calls}

    async def call(self, call: Call[Request, Response], request: Request, timeout_s: float) -> Response:
        deadline = asyncio.timeout(timeout_s)
        try:
            async with deadline:
                response: Response = await self._handlers[call](request)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise Unreachable(self.address, "no answer within the time allowed") from None
        return response

    async def follow(self, stream: ServerStream[Request, Response], request: Request) -> AsyncGenerator[Response, None]:
        async with aclosing(self._handlers[stream](request)) as responses:
            async for response in responses:
                # What is there already is told without a pause, and others are to have their turn.
                await asyncio.sleep(0)
                yield response
