"""Calling side of gRPC: sends values and returns values, over one channel for each address.

Every call has a deadline. If no response arrives, for whatever reason, the call raises `Unreachable`, which names the
address. A call that the peer refused as a whole raises that Refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import grpc
import grpc.aio

from kraft.model.errors import ErrorCode, KraftError, Refusal
from kraft.rpc.call import AnyCall, Call, Exchange, MessageCodec, ServerStream, Stream
from kraft.rpc.connection_failures import (
    UNKNOWN_HOST,
    connection_failure,
    is_not_grpc,
    is_refused,
    is_rejected_handshake,
)
from kraft.rpc.mapping import Parse, Serialize
from kraft.rpc.on_behalf import forwarded_for
from kraft.rpc.session_tokens import LOGIN_NEEDED
from kraft.rpc.stream_errors import peers_error, with_status_first
from kraft.rpc.user_agents import PRIMARY

Request = TypeVar("Request")
Response = TypeVar("Response")

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit on one gRPC message, above any fetch response, which its request limits."""

CLIENT_ID: Final = "client-id-bin"
"""Name of the metadata with the client's id, in UTF-8. Kafka's requests have it in their header."""

CHANNEL_OPTIONS: Final[list[tuple[str, Any]]] = [
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    # A restarted node is reached within a second, not after gRPC's default of up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 50),
    # Despite its name: how long an attempt may take at least. A busy peer does not begin the protocol at once.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # These pings detect a peer that vanished without closing its connection.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # Channels of one process to one address would otherwise share a connection and its backoff.
    ("grpc.use_local_subchannel_pool", 1),
]


class Unreachable(KraftError):
    """No response from `address`: refused, broken off, or after the deadline. The outcome there is unknown.

    `nobody_listens`: the host refused the connection, so no process has the port open.
    """

    def __init__(self, address: str, reason: str, *, nobody_listens: bool = False) -> None:
        super().__init__(f"{address} cannot be reached: {reason}")
        self.address = address
        self.reason = reason
        self.nobody_listens = nobody_listens


class UnknownHost(Unreachable):
    """The name of the host cannot be resolved: it is wrong, or its name server is away."""


class NotGrpc(Unreachable):
    """The peer accepted the connection, but did not begin gRPC's protocol on it: it may speak another one."""


class NotKafka(Unreachable):
    """The peer accepted the connection, but did not answer the first request of Kafka's protocol."""


class HandshakeFailed(Unreachable):
    """This end does not accept the peer's certificate, or the peer has no TLS, or another protocol inside it."""


class NotServed(Unreachable):
    """The peer answered, but its version does not have the call."""


class NotAdmitted(Unreachable):
    """The peer answered, but one of the two does not accept the other as a node of its cluster."""


Explain = Callable[[str, Refusal | Unreachable], Awaitable[Refusal | Unreachable]]
"""Returns what to raise in the place of an error of a call to this address: the caller may know more about it."""


async def _unexplained(_: str, error: Refusal | Unreachable) -> Refusal | Unreachable:
    return error


Dial = Callable[[str, list[tuple[str, Any]]], grpc.aio.Channel]
"""Opens a channel to an address with the given options."""


def dial_openly(address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address, options=options)


RETIRED_AFTER_S: Final = 30.0
"""A channel with old certificates takes calls for this long, for those who hold it."""

RETIRED_GRACE_S: Final = 600.0
"""Its streams may go on for this long after that; whoever uses one opens it again."""


def generation_of(dial: Dial) -> Callable[[], int]:
    """Return what counts how often its certificates were renewed: the method `generation`, if it has one."""
    found: Callable[[], int] = getattr(dial, "generation", _never_renewed)
    return found


def _never_renewed() -> int:
    return 0


class PeerConnections:
    """The channels of one client or node, one for each address, opened at first use."""

    def __init__(self, dial: Dial = dial_openly, explain: Explain = _unexplained, software: str = "") -> None:
        """A `dial` with certificates has a method `generation`, whose number changes when they are renewed.

        `software` is the `NAME/VERSION` of the program, which each call says.
        """
        self._options = [*CHANNEL_OPTIONS, *([(PRIMARY, software)] if software else [])]
        self._dial = dial
        self._explain = explain
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._generation_now = generation_of(dial)
        self._generation = 0
        self._retired: dict[asyncio.Task[None], list[grpc.aio.Channel]] = {}

    def channel(self, address: str) -> grpc.aio.Channel:
        if (generation := self._generation_now()) != self._generation:
            self._generation = generation
            self._retire()
        if address not in self._channels:
            self._channels[address] = self._dial(address, self._options)
        return self._channels[address]

    def _retire(self) -> None:
        old, self._channels = list(self._channels.values()), {}
        if old:
            task = asyncio.ensure_future(_close_later(old))
            self._retired[task] = old
            task.add_done_callback(self._retired.pop)

    def peer(self, address: str, client_id: str = "") -> Peer:
        return Peer(address, self.channel(address), client_id, self._explain)

    async def close(self) -> None:
        channels, self._channels = list(self._channels.values()), {}
        for task, retired in list(self._retired.items()):
            task.cancel()
            channels += retired
        for channel in channels:
            await channel.close(grace=None)


async def _close_later(channels: Sequence[grpc.aio.Channel]) -> None:
    await asyncio.sleep(RETIRED_AFTER_S)
    await asyncio.gather(*(channel.close(RETIRED_GRACE_S) for channel in channels))


class Peer:
    """A node at the other end of a channel."""

    def __init__(
        self, address: str, channel: grpc.aio.Channel, client_id: str = "", explain: Explain = _unexplained
    ) -> None:
        """`client_id` is what the caller calls itself."""
        self.address = address
        self.channel = channel
        self._explain = explain
        self._metadata = ((CLIENT_ID, client_id.encode()),) if client_id else ()

    async def call(self, call: Call[Request, Response], request: Request, timeout_s: float) -> Response:
        """Send a request and return the response. Raises Unreachable, or the Refusal that ended the call."""
        method = self.channel.unary_unary(call.method, *_codecs(call))
        try:
            message = await method(
                call.request.to_message(request), timeout=timeout_s, metadata=(*self._metadata, *forwarded_for())
            )
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            _raise_if_cancelled()
            raise await self._explain(self.address, _failure(self.address, error)) from error
        return call.response.to_value(message)

    async def follow(self, stream: ServerStream[Request, Response], request: Request) -> AsyncGenerator[Response, None]:
        """Yield the responses until either end stops. Raises Unreachable if the call breaks, or the peer's Refusal."""
        method = self.channel.unary_stream(stream.method, *_codecs(stream))
        messages = method(stream.request.to_message(request), metadata=self._metadata)
        try:
            async for message in messages:
                yield stream.response.to_value(message)
        except (grpc.aio.AioRpcError, asyncio.CancelledError) as error:
            _raise_if_cancelled()
            raise await self._explain(self.address, _failure(self.address, error)) from error
        finally:
            messages.cancel()

    def open(self, stream: Stream[Request, Response] | Exchange[Request, Response]) -> CallStream[Request, Response]:
        method = self.channel.stream_stream(stream.method, *_codecs(stream))
        call = with_status_first(method(metadata=self._metadata))
        return CallStream(self.address, call, stream, self._explain)


class CallStream(Generic[Request, Response]):
    """A bidirectional call: requests in order, responses in the same order, or, of an exchange, in any order.

    Two tasks may send and receive at the same time. Once either raises, the stream cannot be used again.
    """

    def __init__(
        self,
        address: str,
        call: Any,
        stream: Stream[Request, Response] | Exchange[Request, Response],
        explain: Explain = _unexplained,
    ) -> None:
        self.address = address
        self._call = call
        self._explain = explain
        self._is_closed = False
        self._request: MessageCodec[Request] = stream.request
        self._response: MessageCodec[Response] = stream.response

    async def send(self, request: Request) -> None:
        """Send a request; waits while the connection is full. Raises as `receive` does."""
        await self._checked(self._call.write(self._request.to_message(request)))

    async def receive(self) -> Response:
        """Return the next response. Raises Unreachable if the stream ended or broke, or the Refusal that ended it."""
        message = await self._checked(self._call.read())
        if message is grpc.aio.EOF:
            raise Unreachable(self.address, "it ended the stream")
        try:
            return self._response.to_value(message)
        except ValueError as error:
            raise Unreachable(self.address, f"its response is not valid: {error}") from error

    async def finish(self) -> None:
        """End sending. The peer ends the call when it has carried out every request. Raises as `receive` does."""
        await self._checked(self._call.done_writing())

    async def close(self) -> None:
        """End the call. Pending responses are dropped, and a task that waits for one gets Unreachable."""
        self._is_closed = True
        self._call.cancel()

    async def _checked(self, step: Awaitable[Any]) -> Any:
        try:
            return await step
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError) as error:
            _raise_if_cancelled()
            raise await self._broken(error) from error
        except asyncio.CancelledError as cancelled:
            # gRPC also raises this in a task that was not cancelled, when another task has closed the stream.
            _raise_if_cancelled()
            raise Unreachable(self.address, "the stream is closed") from cancelled

    async def _broken(self, error: Exception) -> Unreachable | Refusal:
        if not self._is_closed:
            error = await peers_error(self._call, error)
        if isinstance(error, grpc.aio.AioRpcError):
            return await self._explain(self.address, _failure(self.address, error))
        return Unreachable(self.address, "the stream is closed")


def _codecs(call: AnyCall) -> tuple[Serialize, Parse]:
    return call.request.serialize, call.response.parse


def _raise_if_cancelled() -> None:
    """Raise CancelledError if the task was cancelled: gRPC may report a failed call instead, which would be retried."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _failure(address: str, error: grpc.aio.AioRpcError | asyncio.CancelledError) -> Unreachable | Refusal:
    if isinstance(error, asyncio.CancelledError):
        # gRPC also raises this in a task that was not cancelled, when another task has closed the channel.
        return Unreachable(address, "the connection was closed")
    match error.code():
        case grpc.StatusCode.FAILED_PRECONDITION:
            code, _, message = (error.details() or "").partition(": ")
            return Refusal(ErrorCode.__members__.get(code, ErrorCode.UNKNOWN_SERVER_ERROR), message)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            reason = "no answer within the time allowed"
        case grpc.StatusCode.UNAVAILABLE:
            details = error.details() or ""
            reason = connection_failure(details)
            if is_rejected_handshake(details):
                return HandshakeFailed(address, reason)
            if is_not_grpc(details):
                return NotGrpc(address, reason)
            if reason == UNKNOWN_HOST:
                return UnknownHost(address, reason)
            return Unreachable(address, reason, nobody_listens=is_refused(details))
        case grpc.StatusCode.UNIMPLEMENTED:
            return NotServed(address, f"UNIMPLEMENTED: {error.details()}")
        case grpc.StatusCode.UNAUTHENTICATED if (error.details() or "").startswith(LOGIN_NEEDED):
            return Refusal(ErrorCode.ILLEGAL_SASL_STATE, f"{address}: {error.details()}")
        case grpc.StatusCode.UNAUTHENTICATED:
            return NotAdmitted(address, f"UNAUTHENTICATED: {error.details()}")
        case code:
            reason = f"{code.name}: {error.details()}"
    return Unreachable(address, reason)
