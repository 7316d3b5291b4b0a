"""Admits calls to a listener before anything of a call is read, and refuses messages that cannot be decoded.

Methods for nodes are refused to every caller that does not introduce itself as a node of this cluster
(`introductions`), also from a local address, which may be a proxy's. Without a secret they are refused to every caller.
Where clients have to log in, all other methods are refused to every caller that shows neither a session nor, as a node,
an introduction.
With TLS and client certificates, gRPC has already refused strangers during the handshake.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing, asynccontextmanager
from enum import Enum
from typing import Any, Final, NoReturn, TypeVar, cast

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError

from kraft.model.principal import ANONYMOUS, Principal
from kraft.model.refused_for import RefusedFor
from kraft.rpc import introductions
from kraft.rpc.client_gate import CALLER, NODE, Caller, ClientGate, PrincipalOf, SessionMessages
from kraft.rpc.introductions import (
    HEADER,
    SECRET_DIFFERS,
    ClusterSecrets,
    Introduction,
    SessionBook,
    SessionForgotten,
    Unintroduced,
)
from kraft.rpc.login_service import LOGIN_MESSAGE_BYTES_MAX, LOGIN_METHOD
from kraft.rpc.mapping import Parse, Serialize
from kraft.rpc.on_behalf import ON_BEHALF_OF, client_in
from kraft.rpc.pb import membership_pb2, membership_pb2_grpc
from kraft.rpc.received_messages import OpenCall, ReceivedMessages
from kraft.rpc.refusal_log import RefusalLog, readable_peer
from kraft.rpc.services import Context, MethodHandler, client_id_of
from kraft.rpc.session_tokens import NotLoggedIn, SessionOver

log = structlog.get_logger()

T = TypeVar("T")

CHALLENGE_METHOD: Final = "/kraft.v1.Membership/Challenge"
REPLICATION_SERVICE: Final = "/kraft.v1.Replication/"

REQUEST_S_MAX: Final = 30.0
"""A request that takes longer to arrive ends its call. The messages of streams may come at any time."""

TOO_MANY_EMPTY_CALLS: Final = "the connection has too many calls, and has sent no message"

_BEFORE_ADMISSION: Final = (CHALLENGE_METHOD, LOGIN_METHOD)
"""Methods by which nodes and clients show who they are."""


class KnownNodes(Enum):
    """Which callers of a listener are known to be nodes."""

    WHERE_NEEDED = "those that make calls for nodes only, and all that introduce themselves where clients are known"
    IF_INTRODUCED = "all that introduce themselves"
    EVERY_CALLER = "all: they may say for whom they call"


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
        listener: str = "",
        clients: ClientGate | None = None,
        login_bytes_max: int | None = None,
        principal_of: PrincipalOf | None = None,
        known_nodes: KnownNodes = KnownNodes.WHERE_NEEDED,
    ) -> None:
        """`is_guarded` returns whether a method, given by its full name, is for nodes only.

        With `clients`, all others need a login, whose messages have at most `login_bytes_max`. Without, `principal_of`
        says whom a client's certificate stands for. Messages larger than `message_bytes_max` are refused and logged
        here, with the peer; what gRPC itself refuses to receive is reported to the sender only.
        """
        self._cluster_id = cluster_id
        self._secrets = cluster_secrets
        self._is_guarded = is_guarded
        self._message_bytes_max = message_bytes_max
        self._refusals = refusals
        self._listener = listener
        self._clients = clients
        self.login_bytes_max = login_bytes_max
        """Largest message of a client before it has logged in; None where it need not."""

        self._principal_of = principal_of
        self._verifies_all_nodes = clients is not None or principal_of is not None
        if known_nodes is KnownNodes.IF_INTRODUCED:
            self._verifies_all_nodes = True
        self._is_for_nodes = known_nodes is KnownNodes.EVERY_CALLER
        self._sessions = SessionBook(secrets.token_bytes(introductions.PROCESS_BYTES))
        self._checked_handlers: dict[str, MethodHandler] = {}
        self.received = ReceivedMessages()

    @property
    def requires_proof(self) -> bool:
        """Whether strangers may call nothing but Challenge and Login."""
        return self._clients is not None or self._is_guarded("")

    def add_to(self, server: grpc.aio.Server) -> None:
        if self._secrets is not None:
            service = _MembershipService(self._cluster_id, self._secrets, self._sessions, self._refusals)
            membership_pb2_grpc.add_MembershipServicer_to_server(service, server)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[MethodHandler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> MethodHandler | None:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None:
            return self._unimplemented()
        try:
            self._admit_call(method, handler_call_details.invocation_metadata)
        except (Unintroduced, NotLoggedIn) as error:
            return self._refusing(error)
        if method not in self._checked_handlers:
            self._checked_handlers[method] = self._checked(method, handler)
        return self._checked_handlers[method]

    def _admit_call(self, method: str, metadata: Iterable[tuple[str, Any]]) -> None:
        """Raise Unintroduced or NotLoggedIn unless the caller may make this call."""
        if method in _BEFORE_ADMISSION:
            return
        if self._is_guarded(method) or (self._verifies_all_nodes and _is_introduced(metadata)):
            self._admit(method, metadata)
        elif self._clients is not None:
            self._clients.admit(metadata)

    def admit_connection(self, method: str, introduction: str, nonce: bytes, peer: str) -> bytes:
        """Admit a node on a connection that is not gRPC's, and return the proof for it. Raises Unintroduced."""
        try:
            admitted = self._admit(method, [(HEADER, introduction)])
        except SessionForgotten:
            raise
        except Unintroduced as error:
            self._refusals.log(peer, str(error), RefusedFor.NOT_A_NODE)
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
            raise Unintroduced(introductions.cluster_differs(self._cluster_id, introduction.cluster_id))
        self._sessions.admit(introduction)
        return introduction

    def _refusing(self, error: Unintroduced | NotLoggedIn) -> MethodHandler:
        """Return a handler that refuses a call of any kind without reading its content."""

        async def refuse(_requests: object, context: Context) -> None:
            if isinstance(error, (SessionForgotten, SessionOver)):
                # It was admitted before, and will open a new session.
                log.debug("session discarded", peer=readable_peer(context.peer()))
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
            self.received.call_refused(context.peer())
            refused_for = RefusedFor.NOT_A_NODE if isinstance(error, Unintroduced) else RefusedFor.LOGIN
            await self._refuse(context, grpc.StatusCode.UNAUTHENTICATED, str(error), refused_for)

        return grpc.stream_stream_rpc_method_handler(cast(Any, refuse))

    def _unimplemented(self) -> MethodHandler:
        """Return a handler that answers as gRPC does for a method that is not served, and counts the call."""

        async def refuse(_requests: object, context: Context) -> None:
            self.received.call_refused(context.peer())
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")

        return grpc.stream_stream_rpc_method_handler(cast(Any, refuse))

    def _checked(self, method: str, handler: Any) -> MethodHandler:
        """Return the handler, guarded against messages that cannot be decoded, and with its messages counted.

        A stream's handler reads its messages itself and handles their DecodeError. The message of any other call is
        read here, because gRPC would wait for it without end.
        """
        is_login = method == LOGIN_METHOD
        bytes_max = (self.login_bytes_max or LOGIN_MESSAGE_BYTES_MAX) if is_login else self._message_bytes_max
        decode = _within(bytes_max, handler.request_deserializer)
        is_public = method in _BEFORE_ADMISSION
        is_guarded = not is_public and self._is_guarded(method)

        @asynccontextmanager
        async def opened(messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[_Messages]:
            is_known = is_guarded or (self._clients is not None and not is_public)
            known = self.received.call(context.peer(), is_node=is_guarded, is_known=is_known)
            with known as call, ExitStack() as closing:
                if call is None:
                    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY_EMPTY_CALLS)
                assert call is not None, "abort always raises"
                try:
                    if not is_public:
                        messages = self._of_caller(messages, context, closing, call, is_guarded=is_guarded)
                    yield _Messages(messages, decode, call, self.received)
                except NotLoggedIn as error:
                    await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))

        async def only(messages: _Messages, context: Context) -> Any:
            return await self._only(messages, method, context)

        serialize = handler.response_serializer
        if handler.request_streaming:
            return _stream_handler(handler.stream_stream, opened, _all, serialize)
        if handler.response_streaming:
            return _stream_handler(handler.unary_stream, opened, only, serialize)

        async def answer(messages: AsyncIterator[bytes], context: Context) -> Any:
            async with opened(messages, context) as counted:
                request = await only(counted, context)
                return await counted.answer(lambda: handler.unary_unary(request, context))

        return grpc.stream_unary_rpc_method_handler(cast(Any, answer), None, serialize)

    def _of_caller(
        self, messages: AsyncIterator[bytes], context: Context, closing: ExitStack, call: OpenCall, *, is_guarded: bool
    ) -> AsyncIterator[bytes]:
        """Note who makes the call; return its messages, which end with the caller's session. Raises NotLoggedIn."""
        metadata = context.invocation_metadata() or ()
        node_id = introduced_node_id(metadata) if is_guarded or self._verifies_all_nodes else None
        principal = ANONYMOUS
        if node_id is not None:
            principal = Principal(str(node_id), NODE)
        elif self._clients is not None:
            session = self._clients.admit(metadata)
            principal = session.principal
            messages = closing.enter_context(self._clients.messages(messages, session))
        elif self._principal_of is not None:
            principal = self._principal_of(context.auth_context())
        caller = Caller(
            principal=principal,
            listener=self._listener,
            peer=readable_peer(context.peer()),
            client_id=client_id_of(metadata),
        )
        CALLER.set(caller)
        self.received.made_by(call, caller, metadata)
        ON_BEHALF_OF.set(client_in(metadata) if self._is_for_nodes else None)
        return messages

    async def _only(self, messages: _Messages, method: str, context: Context) -> Any:
        """Return the message of a call that has one; ends the call if it does not come, or cannot be decoded."""
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                return await anext(messages)
        except TimeoutError:
            reason = f"{method}: the request had not arrived completely after {REQUEST_S_MAX:g} s"
            await self._refuse(context, grpc.StatusCode.DEADLINE_EXCEEDED, reason, RefusedFor.SLOW)
        except StopAsyncIteration:
            # The client has cancelled the call, or is none of ours.
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{method}: no request came")
        except DecodeError as error:
            reason = f"{method}: not a valid request: {error}"
            await self._refuse(context, grpc.StatusCode.INVALID_ARGUMENT, reason, RefusedFor.REQUEST)

    async def _refuse(self, context: Context, code: grpc.StatusCode, reason: str, refused_for: RefusedFor) -> NoReturn:
        self._refusals.log(context.peer(), reason, refused_for)
        await context.abort(code, reason)
        raise AssertionError("abort always raises")


class _MembershipService(membership_pb2_grpc.MembershipServicer):
    def __init__(
        self, cluster_id: str, cluster_secrets: ClusterSecrets, sessions: SessionBook, refusals: RefusalLog
    ) -> None:
        self._cluster_id = cluster_id
        self._secrets = cluster_secrets
        self._sessions = sessions
        self._refusals = refusals

    async def Challenge(
        self, request: membership_pb2.ChallengeRequest, context: Context
    ) -> membership_pb2.ChallengeResponse:
        secret = self._secrets.find(request.secret_id)
        if secret is None or len(request.nonce) != introductions.NONCE_BYTES:
            # Each cluster has a secret of its own by default, so that of another cluster differs, too.
            is_of_other = request.cluster_id not in ("", self._cluster_id)
            reason = (
                introductions.cluster_differs(self._cluster_id, request.cluster_id) if is_of_other else SECRET_DIFFERS
            )
            self._refusals.log(context.peer(), reason, RefusedFor.NOT_A_NODE)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)
        assert secret is not None, "abort always raises"
        session = self._sessions.open()
        return membership_pb2.ChallengeResponse(
            session=session, proof=introductions.prove(secret, request.nonce, session)
        )


def introduced_node_id(metadata: Iterable[tuple[str, Any]]) -> int | None:
    """Return the node id in a call that a Gatekeeper admitted; None for a call without an introduction."""
    header: Mapping[str, Any] = dict(metadata)
    return int(_text(header[HEADER]).split(" ")[3]) if HEADER in header else None


def _is_introduced(metadata: Iterable[tuple[str, Any]]) -> bool:
    return any(name == HEADER for name, _ in metadata)


def _within(bytes_max: int | None, decode: Parse) -> Parse:
    if bytes_max is None:
        return decode

    def decode_within(data: bytes) -> Any:
        if len(data) > bytes_max:
            raise DecodeError(f"a message of {len(data)} bytes is larger than {bytes_max}")
        return decode(data)

    return decode_within


class _Messages:
    """The messages of one call, counted and decoded as they come."""

    def __init__(
        self, messages: AsyncIterator[bytes], decode: Parse, call: OpenCall, received: ReceivedMessages
    ) -> None:
        self._messages = messages
        self._decode = decode
        self._call = call
        self._received = received

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> Any:
        """Return the next one. Raises StopAsyncIteration after the last, and DecodeError."""
        self._received.reading_began(self._call)
        data = await anext(self._messages)
        self._received.message_came(self._call, len(data))
        return self._decode(data)

    async def answer(self, begin: Callable[[], Awaitable[T]]) -> T:
        """Return the answer to what came. Raises SessionOver once the caller's session is withdrawn."""
        if isinstance(self._messages, SessionMessages):
            return await self._messages.while_valid(begin)
        return await begin()


def _stream_handler(
    answer: Callable[[Any, Context], Any],
    opened: Callable[[AsyncIterator[bytes], Context], AbstractAsyncContextManager[_Messages]],
    begin: Callable[[_Messages, Context], Awaitable[Any]],
    serialize: Serialize,
) -> MethodHandler:
    """Return a handler whose `answer` gets what `begin` makes of the messages; gRPC asks for a generator."""

    async def answered(messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
        async with opened(messages, context) as counted:
            values = await begin(counted, context)
            async with aclosing(answer(values, context)) as answers:
                while (message := await counted.answer(lambda: anext(answers, None))) is not None:
                    yield message

    return grpc.stream_stream_rpc_method_handler(cast(Any, answered), None, serialize)


async def _all(messages: _Messages, _: Context) -> _Messages:
    return messages


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
