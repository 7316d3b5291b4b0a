"""A channel on which a node introduces itself with each call, once the other end has shown that it knows the secret.

Stubs and callers use it as any other channel. A server that was started again does not know its earlier sessions: a
call with one answer is then made again at once, since nobody has acted on it; a stream breaks as with any restart.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NoReturn

import grpc
import grpc.aio

from kraft.rpc import introductions
from kraft.rpc.introductions import HEADER, ClusterSecrets, Introduction
from kraft.rpc.pb import membership_pb2, membership_pb2_grpc

CHALLENGE_DEADLINE_S: Final = 5.0

Metadata = tuple[tuple[str, str], ...]
Begin = Callable[[Metadata], Any]


class IntroducedChannel(grpc.aio.Channel):
    def __init__(
        self, channel: grpc.aio.Channel, cluster_secrets: ClusterSecrets, cluster_id: str, node_id: int
    ) -> None:
        self._channel = channel
        self._introducer = _Introducer(channel, cluster_secrets, cluster_id, node_id)

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        inner = self._channel.unary_unary(method, *args, **kwargs)

        async def call(request: Any, *, timeout: float) -> Any:
            deadline = asyncio.get_running_loop().time() + timeout

            async def attempt() -> Any:
                metadata = await self._introducer.metadata(method, deadline)
                return await inner(request, timeout=_left(deadline), metadata=metadata)

            try:
                return await attempt()
            except grpc.aio.AioRpcError as error:
                if not self._introducer.is_forgotten(error):
                    raise
            return await attempt()

        return call

    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        inner = self._channel.unary_stream(method, *args, **kwargs)
        return lambda request: _IntroducedCall(
            self._introducer, method, lambda metadata: inner(request, metadata=metadata)
        )

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        inner = self._channel.stream_stream(method, *args, **kwargs)
        return lambda: _IntroducedCall(self._introducer, method, lambda metadata: inner(metadata=metadata))

    def stream_unary(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotImplementedError("no call between nodes is of this kind")

    async def close(self, grace: float | None = None) -> None:
        await self._channel.close(grace)

    async def __aenter__(self) -> IntroducedChannel:
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


class _Introducer:
    """The session with the process at the other end."""

    def __init__(
        self, channel: grpc.aio.Channel, cluster_secrets: ClusterSecrets, cluster_id: str, node_id: int
    ) -> None:
        self._stub = membership_pb2_grpc.MembershipStub(channel)
        self._secret = cluster_secrets.spoken
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._session: bytes | None = None
        self._count = 0
        self._challenging = asyncio.Lock()

    async def metadata(self, method: str, deadline: float | None = None) -> Metadata:
        """For one call. Raises AioRpcError when the other end cannot be asked in time, or does not know the secret."""
        async with self._challenging:
            if self._session is None:
                timeout_s = CHALLENGE_DEADLINE_S if deadline is None else min(CHALLENGE_DEADLINE_S, _left(deadline))
                self._session, self._count = await self._challenge(timeout_s), 0
        self._count += 1
        introduction = Introduction(
            cluster_id=self._cluster_id, node_id=self._node_id, session=self._session, count=self._count
        )
        return ((HEADER, introduction.to_header(self._secret, method)),)

    def is_forgotten(self, error: grpc.aio.AioRpcError) -> bool:
        """Whether the other end does not know the session any more; the next call begins another."""
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            self._session = None
            return True
        return False

    async def _challenge(self, timeout_s: float) -> bytes:
        nonce = secrets.token_bytes(introductions.NONCE_BYTES)
        request = membership_pb2.ChallengeRequest(nonce=nonce, secret_id=self._secret.secret_id)
        try:
            answer = await self._stub.Challenge(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise _unauthenticated("nobody there knows of a cluster.secret.file") from error
            raise
        if not introductions.is_proof(self._secret, nonce, answer.session, answer.proof):
            raise _unauthenticated("whoever answers does not know this cluster's secret")
        return answer.session


class _IntroducedCall:
    """A stream that begins at its first use. As gRPC's own, it may be written to and read from by two tasks at once."""

    def __init__(self, introducer: _Introducer, method: str, begin: Begin) -> None:
        self._introducer = introducer
        self._method = method
        self._begin = begin
        self._call: Any = None
        self._beginning = asyncio.Lock()
        self._cancelled = False

    async def write(self, message: Any) -> None:
        await self._watched((await self._begun()).write(message))

    async def read(self) -> Any:
        return await self._watched((await self._begun()).read())

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not grpc.aio.EOF:
            yield message

    def cancel(self) -> bool:
        self._cancelled = True
        return self._call is None or self._call.cancel()

    async def _begun(self) -> Any:
        async with self._beginning:
            if self._call is None:
                metadata = await self._introducer.metadata(self._method)
                if self._cancelled:
                    raise _cancelled()
                self._call = self._begin(metadata)
        return self._call

    async def _watched(self, step: Awaitable[Any]) -> Any:
        try:
            return await step
        except grpc.aio.AioRpcError as error:
            self._introducer.is_forgotten(error)
            raise


def _left(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())


def _unauthenticated(reason: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        grpc.StatusCode.UNAUTHENTICATED, grpc.aio.Metadata(), grpc.aio.Metadata(), details=reason
    )


def _cancelled() -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        grpc.StatusCode.CANCELLED, grpc.aio.Metadata(), grpc.aio.Metadata(), details="the stream was closed"
    )
