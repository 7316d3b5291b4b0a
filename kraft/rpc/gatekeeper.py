"""Admits calls to a listener before anything of a call is read, and refuses messages that cannot be decoded.

Methods for nodes are refused to every caller that does not introduce itself as a node of this cluster
(`introductions`), also from a local address, which may be a proxy's. Without a secret they are refused to every caller.
With TLS and client certificates, gRPC has already refused strangers during the handshake.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final, NoReturn, TypeAlias, cast

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError
from msgspec import Struct

from kraft.rpc import introductions
from kraft.rpc.introductions import (
    HEADER,
    SECRET_DIFFERS,
    ClusterSecrets,
    Introduction,
    SessionBook,
    SessionForgotten,
    Unintroduced,
)
from kraft.rpc.pb import membership_pb2, membership_pb2_grpc
from kraft.rpc.refusal_log import RefusalLog, readable_peer

log = structlog.get_logger()

Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

CHALLENGE_METHOD: Final = "/kraft.v1.Membership/Challenge"
REPLICATION_SERVICE: Final = "/kraft.v1.Replication/"


class Gatekeeper(grpc.aio.ServerInterceptor):
    """Interceptor of one listener. `add_to` adds its own method, Challenge, which strangers may call."""

    def __init__(
        self,
        *,
        cluster_id: str,
        cluster_secrets: ClusterSecrets | None,
        is_guarded: Callable[[str], bool],
        message_bytes_max: int | None,
        refusals: RefusalLog,
    ) -> None:
        """`is_guarded` returns whether a method, given by its full name, is for nodes only.

        Messages larger than `message_bytes_max` are refused and logged here, with the peer; what gRPC itself refuses to
        receive is reported to the sender only.
        """
        self._cluster_id = cluster_id
        self._secrets = cluster_secrets
        self._is_guarded = is_guarded
        self._message_bytes_max = message_bytes_max
        self._refusals = refusals
        self._sessions = SessionBook(secrets.token_bytes(introductions.PROCESS_BYTES))
        self._checked_handlers: dict[str, Handler] = {}

    def add_to(self, server: grpc.aio.Server) -> None:
        if self._secrets is not None:
            service = _MembershipService(self._secrets, self._sessions, self._refusals)
            membership_pb2_grpc.add_MembershipServicer_to_server(service, server)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None:
            # The method is not served; gRPC answers UNIMPLEMENTED.
            return None
        if method != CHALLENGE_METHOD and self._is_guarded(method):
            try:
                self._admit(method, handler_call_details.invocation_metadata)
            except Unintroduced as error:
                return self._refusing(error)
        if method not in self._checked_handlers:
            self._checked_handlers[method] = self._checked(method, handler)
        return self._checked_handlers[method]

    def admit_connection(self, method: str, introduction: str, nonce: bytes, peer: str) -> bytes:
        """Admit a node on a connection that is not gRPC's, and return the proof for it. Raises Unintroduced."""
        try:
            admitted = self._admit(method, [(HEADER, introduction)])
        except SessionForgotten:
            raise
        except Unintroduced as error:
            self._refusals.log(peer, str(error))
            raise
        assert self._secrets is not None, "it was admitted by one"
        return introductions.prove_connection(
            introductions.secret_of(self._secrets, introduction), nonce, admitted.session
        )

    def _admit(self, method: str, metadata: Iterable[tuple[str, Any]]) -> Introduction:
        """Admit one call of a node. Raises Unintroduced."""
        if self._secrets is None:
            raise Unintroduced("this node has no cluster secret: set cluster.secret.file on every node")
        header = dict(metadata).get(HEADER)
        if not header:
            raise Unintroduced("it sent no proof of the cluster secret: set cluster.secret.file on every node")
        introduction = Introduction.from_header(self._secrets, method, _text(header))
        if introduction.cluster_id != self._cluster_id:
            theirs = introduction.cluster_id[:64]
            raise Unintroduced(f"cluster.id differs: this is {self._cluster_id!r}, not {theirs!r}")
        self._sessions.admit(introduction)
        return introduction

    def _refusing(self, error: Unintroduced) -> Handler:
        """Return a handler that refuses a call of any kind without reading its content."""

        async def refuse(_requests: object, context: Context) -> None:
            if isinstance(error, SessionForgotten):
                # It knows the secret, so it is a node, which will open a new session.
                log.debug("session discarded", peer=readable_peer(context.peer()))
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
            await self._refuse(context, grpc.StatusCode.UNAUTHENTICATED, str(error))

        return grpc.stream_stream_rpc_method_handler(cast(Any, refuse))

    def _checked(self, method: str, handler: Any) -> Handler:
        """Return the handler, guarded against messages that cannot be decoded.

        A stream's handler reads its messages itself and handles their DecodeError.
        """
        decode = _within(self._message_bytes_max, handler.request_deserializer)
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(handler.stream_stream, decode, handler.response_serializer)

        async def check(request: object, context: Context) -> None:
            if isinstance(request, _Undecodable):
                await self._refuse(context, grpc.StatusCode.INVALID_ARGUMENT, f"{method}: {request.reason}")

        decode = _without_raising(decode)
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(
                _guarded_stream(check, handler.unary_stream), decode, handler.response_serializer
            )
        return grpc.unary_unary_rpc_method_handler(
            _guarded_call(check, handler.unary_unary), decode, handler.response_serializer
        )

    async def _refuse(self, context: Context, code: grpc.StatusCode, reason: str) -> NoReturn:
        self._refusals.log(context.peer(), reason)
        await context.abort(code, reason)
        raise AssertionError("abort always raises")


class _MembershipService(membership_pb2_grpc.MembershipServicer):
    def __init__(self, cluster_secrets: ClusterSecrets, sessions: SessionBook, refusals: RefusalLog) -> None:
        self._secrets = cluster_secrets
        self._sessions = sessions
        self._refusals = refusals

    async def Challenge(
        self, request: membership_pb2.ChallengeRequest, context: Context
    ) -> membership_pb2.ChallengeResponse:
        secret = self._secrets.find(request.secret_id)
        if secret is None or len(request.nonce) != introductions.NONCE_BYTES:
            self._refusals.log(context.peer(), SECRET_DIFFERS)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, SECRET_DIFFERS)
        assert secret is not None, "abort always raises"
        session = self._sessions.open()
        return membership_pb2.ChallengeResponse(
            session=session, proof=introductions.prove(secret, request.nonce, session)
        )


def introduced_node_id(metadata: Iterable[tuple[str, Any]]) -> int | None:
    """Return the node id in a call that a Gatekeeper admitted; None for a call without an introduction."""
    header: Mapping[str, Any] = dict(metadata)
    return int(_text(header[HEADER]).split(" ")[3]) if HEADER in header else None


class _Undecodable(Struct, frozen=True):
    """Stands for bytes that cannot be decoded as the method's request."""

    reason: str


Decode = Callable[[bytes], Any]


def _within(bytes_max: int | None, decode: Decode) -> Decode:
    if bytes_max is None:
        return decode

    def decode_within(data: bytes) -> Any:
        if len(data) > bytes_max:
            raise DecodeError(f"a message of {len(data)} bytes is larger than {bytes_max}")
        return decode(data)

    return decode_within


def _without_raising(decode: Decode) -> Decode:
    def decode_or_mark(data: bytes) -> Any:
        try:
            return decode(data)
        except Exception as error:  # noqa: BLE001  gRPC would print the traceback of any exception.
            return _Undecodable(f"not a valid request: {error}")

    return decode_or_mark


Check = Callable[[Any, Context], Awaitable[None]]


def _guarded_call(check: Check, answer: Callable[[Any, Context], Awaitable[Any]]) -> Callable[[Any, Context], Any]:
    async def guarded(request: Any, context: Context) -> Any:
        await check(request, context)
        return await answer(request, context)

    return guarded


def _guarded_stream(check: Check, answer: Callable[[Any, Context], Any]) -> Callable[[Any, Context], Any]:
    async def guarded(request: Any, context: Context) -> AsyncIterator[Any]:
        await check(request, context)
        async with aclosing(answer(request, context)) as answers:
            async for message in answers:
                yield message

    return guarded


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
