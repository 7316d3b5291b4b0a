"""Calls from a node to itself, without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

import structlog

from kraft.model.errors import Refusal
from kraft.rpc.call import AnyCall, Call, ServedCall, ServerStream
from kraft.rpc.peers import Unreachable

log = structlog.get_logger()

Request = TypeVar("Request")
Response = TypeVar("Response")


class LocalPeer:
    """A `Peer` in the same process, with the same deadlines, Refusals and Unreachable."""

    def __init__(self, address: str, calls: Sequence[ServedCall]) -> None:
        self.address = address
        self._handlers = {served.call: served.handler for served in calls}
        assert len(self._handlers) == len(calls), "a call is served once"
        assert all(served.context_version is None for served in calls), "a call without a connection has no context"

    async def call(self, call: Call[Request, Response], request: Request, timeout_s: float) -> Response:
        deadline = asyncio.timeout(timeout_s)
        try:
            async with deadline:
                response: Response = await self._handlers[call](request)
        except Refusal:
            raise
        except Exception as error:
            if deadline.expired():
                raise Unreachable(self.address, "no answer within the time allowed") from None
            raise self._internal_error(call, error) from error
        return response

    async def follow(self, stream: ServerStream[Request, Response], request: Request) -> AsyncGenerator[Response, None]:
        async with aclosing(self._handlers[stream](request)) as responses:
            while True:
                try:
                    response = await anext(responses, None)
                except Refusal:
                    raise
                except Exception as error:
                    raise self._internal_error(stream, error) from error
                if response is None:
                    return
                # Responses may be available without a wait, so other tasks get a turn here.
                await asyncio.sleep(0)
                yield response

    def _internal_error(self, call: AnyCall, error: Exception) -> Unreachable:
        """Log a bug in a handler. It ends the call and not the caller, as it does over a connection."""
        log.error("internal error", call=call.method, exc_info=error)
        return Unreachable(self.address, f"UNKNOWN: {type(error).__name__}: {error}")
