"""Channel whose calls carry proof of a session with the process at the other end.

Stubs and callers use it like any other channel. A restarted server does not know its earlier sessions and says so
before it reads anything of a call; the call is then repeated at once, in a new session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn, Protocol

import grpc
import grpc.aio

from kraft.rpc.stream_errors import peers_error, with_status_first

Metadata = tuple[tuple[str, str | bytes], ...]
Begin = Callable[[Metadata], Any]


class CallSessions(Protocol):
    """The sessions of one channel, one after the other."""

    async def show(self, method: str, deadline: float | None = None) -> tuple[bytes, Metadata]:
        """Return the session and what one call shows of it; opens one if there is none. Raises AioRpcError."""

    def refused(self, session: bytes, error: grpc.aio.AioRpcError) -> None:
        """Take the error of a call of this session: if it refused the session, the next call opens another one."""

    def is_forgotten(self, error: grpc.aio.AioRpcError) -> bool:
        """Return whether the other end only needs a new session."""


class SessionChannel(grpc.aio.Channel):
    """A gRPC channel that adds what its sessions say to the metadata of each call."""

    def __init__(self, channel: grpc.aio.Channel, sessions: CallSessions) -> None:
        self._channel = channel
        self._sessions = sessions

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        inner, sessions = self._channel.unary_unary(method, *args, **kwargs), self._sessions

        async def call(request: Any, *, timeout: float, metadata: Metadata | None = None) -> Any:
            deadline = asyncio.get_running_loop().time() + timeout

            async def attempt() -> Any:
                session, own = await sessions.show(method, deadline)
                try:
                    return await inner(request, timeout=time_left(deadline), metadata=(*own, *(metadata or ())))
                except grpc.aio.AioRpcError as error:
                    sessions.refused(session, error)
                    raise

            try:
                return await attempt()
            except grpc.aio.AioRpcError as error:
                if not sessions.is_forgotten(error):
                    raise
            return await attempt()

        return call

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        inner = self._channel.unary_stream(method, *args, **kwargs)
        return lambda request, metadata=None: _SessionCall(
            self._sessions, method, lambda shown: inner(request, metadata=(*shown, *(metadata or ())))
        )

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        inner = self._channel.stream_stream(method, *args, **kwargs)
        return lambda metadata=None: _SessionCall(
            self._sessions, method, lambda shown: with_status_first(inner(metadata=(*shown, *(metadata or ()))))
        )

    def stream_unary(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotImplementedError("Kraft has no call with many requests and one response")

    async def close(self, grace: float | None = None) -> None:
        await self._channel.close(grace)

    async def __aenter__(self) -> SessionChannel:
        await self._channel.__aenter__()
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._channel.__aexit__(*exception)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()


class _SessionCall:
    """A stream that begins at its first use. Like gRPC's own, two tasks may write and read at the same time.

    If its session is forgotten at the other end, it is restarted once, with what was written until then: one message at
    most. A stream that wrote more before its first response fails instead, so nothing piles up here.
    """

    def __init__(self, sessions: CallSessions, method: str, begin: Begin) -> None:
        self._sessions = sessions
        self._method = method
        self._begin = begin
        self._call: Any = None
        self._session = b""
        self._written: list[Any] = []
        self._may_restart = True
        self._beginning = asyncio.Lock()
        self._cancelled = False
        self._is_finished = False

    async def write(self, message: Any) -> None:
        call = await self._begun()
        # The stream cannot restart between the line above and these, so the message goes to exactly one call.
        if self._written:
            self._settle()
        elif self._may_restart:
            self._written.append(message)
        try:
            await call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            if await self._restarted(call, error) is None:
                raise await peers_error(call, error) from error

    async def read(self) -> Any:
        call = await self._begun()
        try:
            message = await call.read()
        except grpc.aio.AioRpcError as error:
            again = await self._restarted(call, error)
            if again is None:
                raise
            message = await self._watched(again)
        self._settle()
        return message

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not grpc.aio.EOF:
            yield message

    async def done_writing(self) -> None:
        call = await self._begun()
        self._is_finished = True
        await call.done_writing()

    def done(self) -> bool:
        return self._call is not None and bool(self._call.done())

    async def code(self) -> Any:
        return await (await self._begun()).code()

    async def details(self) -> Any:
        return await (await self._begun()).details()

    def cancel(self) -> bool:
        self._cancelled = True
        return self._call is None or self._call.cancel()

    def _settle(self) -> None:
        """Rule out a restart: the other end accepted the session, or too much was written."""
        self._may_restart = False
        self._written.clear()

    async def _begun(self) -> Any:
        async with self._beginning:
            if self._call is None:
                await self._begin_in_session()
        return self._call

    async def _begin_in_session(self) -> None:
        self._session, metadata = await self._sessions.show(self._method)
        if self._cancelled:
            raise _cancelled()
        self._call = self._begin(metadata)

    async def _restarted(self, call: Any, error: Exception) -> Any:
        """Return a new call in place of the failed one, with what was written to that; None if it cannot restart."""
        async with self._beginning:
            if self._call is not call:
                return self._call
            failure = await peers_error(call, error)
            if not isinstance(failure, grpc.aio.AioRpcError):
                return None
            self._sessions.refused(self._session, failure)
            if not self._may_restart or not self._sessions.is_forgotten(failure):
                return None
            self._may_restart = False
            await self._begin_in_session()
            while self._written:
                await self._call.write(self._written.pop())
            if self._is_finished:
                await self._call.done_writing()
        return self._call

    async def _watched(self, call: Any) -> Any:
        try:
            return await call.read()
        except grpc.aio.AioRpcError as error:
            self._sessions.refused(self._session, error)
            raise


def time_left(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())


def failed_call(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    """Return the error of a call that did not get to the other end."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


def _cancelled() -> grpc.aio.AioRpcError:
    return failed_call(grpc.StatusCode.CANCELLED, "the stream was closed")
