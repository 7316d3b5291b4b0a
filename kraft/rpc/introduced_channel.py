"""Channel on which a node introduces itself with each call, after the other end proved that it knows the secret.

Stubs and callers use it like any other channel. A restarted server does not know its earlier sessions and says so
before it reads anything of a call; the call is then repeated at once, in a new session.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NoReturn

import grpc
import grpc.aio
from msgspec import Struct

from kraft.model.callbacks import Callback
from kraft.rpc import introductions
from kraft.rpc.introductions import HEADER, SESSION_FORGOTTEN, ClusterSecrets, Introduction
from kraft.rpc.pb import membership_pb2, membership_pb2_grpc
from kraft.rpc.peers import Unreachable
from kraft.rpc.stream_errors import peers_error, with_status_first

CHALLENGE_DEADLINE_S: Final = 5.0

Metadata = tuple[tuple[str, str | bytes], ...]
Begin = Callable[[Metadata], Any]


class IntroducedChannel(grpc.aio.Channel):
    """A gRPC channel that adds an introduction to the metadata of each call."""

    def __init__(
        self, channel: grpc.aio.Channel, cluster_secrets: ClusterSecrets, cluster_id: str, node_id: int
    ) -> None:
        self._channel = channel
        self._introducer = _Introducer(channel, cluster_secrets, cluster_id, node_id)

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        inner = self._channel.unary_unary(method, *args, **kwargs)

        async def call(request: Any, *, timeout: float, metadata: Metadata | None = None) -> Any:
            deadline = asyncio.get_running_loop().time() + timeout

            async def attempt() -> Any:
                session, introduction = await self._introducer.introduce(method, deadline)
                try:
                    return await inner(request, timeout=_left(deadline), metadata=(*introduction, *(metadata or ())))
                except grpc.aio.AioRpcError as error:
                    self._introducer.refused(session, error)
                    raise

            try:
                return await attempt()
            except grpc.aio.AioRpcError as error:
                if not _is_forgotten(error):
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
        return lambda: _IntroducedCall(
            self._introducer, method, lambda metadata: with_status_first(inner(metadata=metadata))
        )

    async def introduce(self, method: str, nonce: bytes) -> ConnectionIntroduction:
        """Return an introduction for a connection to the same process that is not gRPC's. Raises Unreachable."""
        try:
            session, metadata = await self._introducer.introduce(method)
        except grpc.aio.AioRpcError as error:
            raise Unreachable("the node", error.details() or error.code().name) from error
        except (grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            raise Unreachable("the node", "the channel is closed") from error
        return ConnectionIntroduction(
            header=metadata[0][1],
            proof=self._introducer.proof_of_connection(nonce, session),
            forget=lambda: self._introducer.forget(session),
        )

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


class ConnectionIntroduction(Struct, frozen=True):
    """Introduction that a node sends on a connection, and the proof that it expects in return."""

    header: str
    proof: bytes
    forget: Callback
    """To be called when the other end does not know the session; the next introduction opens another one."""


class _Introducer:
    """Session with the process at the other end."""

    def __init__(
        self, channel: grpc.aio.Channel, cluster_secrets: ClusterSecrets, cluster_id: str, node_id: int
    ) -> None:
        self._stub = membership_pb2_grpc.MembershipStub(channel)
        self._secret = cluster_secrets.primary
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._session: bytes | None = None
        self._count = 0
        self._challenging = asyncio.Lock()

    async def introduce(self, method: str, deadline: float | None = None) -> tuple[bytes, tuple[tuple[str, str]]]:
        """Return the session and the metadata for one call.

        Raises AioRpcError if the other end does not answer in time, or does not know the secret.
        """
        async with self._challenging:
            if self._session is None:
                timeout_s = CHALLENGE_DEADLINE_S if deadline is None else min(CHALLENGE_DEADLINE_S, _left(deadline))
                self._session, self._count = await self._challenge(timeout_s), 0
        self._count += 1
        introduction = Introduction(
            cluster_id=self._cluster_id, node_id=self._node_id, session=self._session, count=self._count
        )
        return self._session, ((HEADER, introduction.to_header(self._secret, method)),)

    def refused(self, session: bytes, error: grpc.aio.AioRpcError) -> None:
        """Take the error of a call of this session: if it refused the introduction, the next call opens a session."""
        if error.code() is grpc.StatusCode.UNAUTHENTICATED:
            self.forget(session)

    def forget(self, session: bytes) -> None:
        """Open a session before the next call, if this is the current one."""
        if self._session == session:
            self._session = None

    def proof_of_connection(self, nonce: bytes, session: bytes) -> bytes:
        """Return the proof that the other end owes for a connection."""
        return introductions.prove_connection(self._secret, nonce, session)

    async def _challenge(self, timeout_s: float) -> bytes:
        nonce = secrets.token_bytes(introductions.NONCE_BYTES)
        request = membership_pb2.ChallengeRequest(
            nonce=nonce, secret_id=self._secret.secret_id, cluster_id=self._cluster_id
        )
        try:
            answer = await self._stub.Challenge(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise _unauthenticated("it has no cluster secret: set cluster.secret.file on every node") from error
            raise
        if not introductions.is_proof(self._secret, nonce, answer.session, answer.proof):
            raise _unauthenticated("it does not know this cluster's secret")
        return answer.session


class _IntroducedCall:
    """A stream that begins at its first use. Like gRPC's own, two tasks may write and read at the same time.

    If its session is forgotten at the other end, it is restarted once, with what was written until then: one message at
    most. A stream that wrote more before its first response fails instead, so nothing piles up here.
    """

    def __init__(self, introducer: _Introducer, method: str, begin: Begin) -> None:
        self._introducer = introducer
        self._method = method
        self._begin = begin
        self._call: Any = None
        self._session = b""
        self._written: list[Any] = []
        self._may_restart = True
        self._beginning = asyncio.Lock()
        self._cancelled = False

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

    def cancel(self) -> bool:
        self._cancelled = True
        return self._call is None or self._call.cancel()

    def _settle(self) -> None:
        """Rule out a restart: the other end accepted the introduction, or too much was written."""
        self._may_restart = False
        self._written.clear()

    async def _begun(self) -> Any:
        async with self._beginning:
            if self._call is None:
                await self._introduce()
        return self._call

    async def _introduce(self) -> None:
        self._session, metadata = await self._introducer.introduce(self._method)
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
            self._introducer.refused(self._session, failure)
            if not self._may_restart or not _is_forgotten(failure):
                return None
            self._may_restart = False
            await self._introduce()
            while self._written:
                await self._call.write(self._written.pop())
        return self._call

    async def _watched(self, call: Any) -> Any:
        try:
            return await call.read()
        except grpc.aio.AioRpcError as error:
            self._introducer.refused(self._session, error)
            raise


def _is_forgotten(error: grpc.aio.AioRpcError) -> bool:
    """True if the other end only needs a new session."""
    return error.code() is grpc.StatusCode.UNAUTHENTICATED and error.details() == SESSION_FORGOTTEN


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
