"""Serving side of gRPC: decodes messages into values, calls handlers, encodes their responses.

Errors of a call end here: a Refusal that the handler raises, bad field values, and bugs. A failed call does not affect
other calls.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final, Generic, NoReturn, TypeAlias, TypeVar, assert_never

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from kraft.model.errors import Refusal
from kraft.model.request_context import RequestContext
from kraft.rpc.call import (
    Call,
    Exchange,
    ExchangeHandler,
    Handler,
    MessageCodec,
    ServedCall,
    ServerStream,
    ServerStreamHandler,
    Stream,
    StreamHandler,
)
from kraft.rpc.client_gate import CALLER
from kraft.rpc.long_messages import receiving, sending, to_message, value_of
from kraft.rpc.peers import CLIENT_ID, MESSAGE_BYTES_MAX
from kraft.rpc.refusal_log import readable_peer
from kraft.rpc.requests_in_progress import RequestsInProgress

Request = TypeVar("Request")
Response = TypeVar("Response")

Context = grpc.aio.ServicerContext[Any, Any]
MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

STREAMS_MAX: Final = 1_000

SERVER_OPTIONS: Final = [
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    # Two nodes on one port would otherwise share it silently.
    ("grpc.so_reuseport", 0),
    # Clients may ping a quiet connection, to notice a peer that vanished.
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A client that vanished silently would otherwise keep its streams for two hours, gRPC's default.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A peer that connects and does not complete the handshake is disconnected after this, not after two minutes.
    ("grpc.server_handshake_timeout_ms", 10_000),
    # A connection's calls. All clients of a process may share one connection.
    ("grpc.max_concurrent_streams", STREAMS_MAX),
    # What gRPC collects of a stream that nobody reads. It would measure how much the network can hold, and collect up
    # to 64 MiB. A constant limits a stream to about so much for each round trip.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 4 * 1024 * 1024),
]

CALLS_MAX: Final = 10_000
"""Calls of one listener that are open at the same time; further ones are refused with RESOURCE_EXHAUSTED."""

STREAM_REQUESTS_IN_FLIGHT_MAX: Final = 64
"""A stream with this many unanswered requests is not read until some are answered."""

EXCHANGE_REQUESTS_WAITING_MAX: Final = 1_024
"""The same for an exchange, whose requests may all wait for something else."""

REASON_BYTES_MAX: Final = 4 * 1024
"""Limit on the text of an error as gRPC encodes it. Clients may refuse trailers above 8 KiB, and lose the error."""

_ESCAPED_BYTE_SIZE: Final = 3
"""gRPC writes a byte that is not printable ASCII as `%` and two digits."""


class Service:
    """Serves calls, of one or several gRPC services, on a listener. gRPC refuses calls that are not served."""

    def __init__(self, *calls: ServedCall) -> None:
        self._calls = calls
        self.in_progress = RequestsInProgress()

    def add_to(self, server: grpc.aio.Server) -> None:
        services: defaultdict[str, dict[str, MethodHandler]] = defaultdict(dict)
        for served in self._calls:
            services[served.call.service][served.call.name] = _method_handler(served, self.in_progress)
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(name, handlers) for name, handlers in services.items()]
        )


def _method_handler(served: ServedCall, in_progress: RequestsInProgress) -> MethodHandler:
    call, handler = served.call, served.handler
    decode, encode = receiving(call.request), sending(call.response)
    match call:
        case Call():
            answering = _answering(call, handler, in_progress, served.context_version)
            return grpc.unary_unary_rpc_method_handler(answering, decode, encode)
        case ServerStream():
            return grpc.unary_stream_rpc_method_handler(_streaming(call, handler), decode, encode)
        case Stream():
            return grpc.stream_stream_rpc_method_handler(_in_order(call, handler, in_progress), decode, encode)
        case Exchange():
            return grpc.stream_stream_rpc_method_handler(_exchanging(call, handler, in_progress), decode, encode)
        case _:
            assert_never(call)


def _answering(
    call: Call[Request, Response],
    handler: Callable[..., Awaitable[Response]],
    in_progress: RequestsInProgress,
    context_version: int | None,
) -> Any:
    async def answer(message: Any, context: Context) -> Any:
        in_progress.begun()
        try:
            return await respond(message, context)
        finally:
            in_progress.ended()

    async def respond(message: Any, context: Context) -> Any:
        request = await read_value(call.request, message, context)
        also = () if context_version is None else (_request_context(context, context_version),)
        response = await answered(handler(request, *also), context)
        return await to_message(call.response, response, message)

    return answer


def _request_context(context: Context, version: int) -> RequestContext:
    caller = CALLER.get()
    return RequestContext(
        version=version,
        client_id=client_id_of(context.invocation_metadata() or ()),
        peer=readable_peer(context.peer()),
        principal=caller.principal,
        listener=caller.listener,
    )


def client_id_of(metadata: Iterable[tuple[str, Any]]) -> str:
    """Return what the client of a call calls itself; empty if it does not say."""
    client_id = dict(metadata).get(CLIENT_ID, b"")
    assert isinstance(client_id, bytes)  # gRPC decodes metadata of such a name.
    return str(client_id, "utf-8", "replace")


def _streaming(stream: ServerStream[Request, Response], handler: ServerStreamHandler[Request, Response]) -> Any:
    async def answer(message: Any, context: Context) -> AsyncIterator[Any]:
        request = await read_value(stream.request, message, context)
        async with aclosing(handler(request)) as responses:
            while (response := await answered(anext(responses, None), context)) is not None:
                yield await to_message(stream.response, response)

    return answer


def _in_order(
    stream: Stream[Request, Response], handler: StreamHandler[Request, Response], in_progress: RequestsInProgress
) -> Any:
    async def answer(messages: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        async for response in in_order(read_values(messages, stream.request), handler, context, in_progress):
            yield await to_message(stream.response, response)

    return answer


def _exchanging(
    exchange: Exchange[Request, Response], handler: ExchangeHandler[Request, Response], in_progress: RequestsInProgress
) -> Any:
    async def answer(frames: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        async for make in as_ready(read_values(frames, exchange.request), handler, context, in_progress):
            yield exchange.response.to_message(make())

    return answer


async def read_value(codec: MessageCodec[Request], message: Any, context: Context) -> Request:
    """Return the request's value; ends the call if the message's fields are invalid."""
    try:
        return await value_of(codec, message)
    except DecodeError as error:
        await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, f"not a valid request: {error}")
    except ValueError as error:
        await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))


class _BadMessage(Exception):
    """An invalid message of a stream. Not an abort yet, which would drop the responses to earlier requests."""


async def read_values(requests: AsyncIterator[Any], codec: MessageCodec[Request]) -> AsyncIterator[Request]:
    """Yield the values of a stream's messages, for `in_order`."""
    messages_left = aiter(requests)
    while True:
        try:
            value = await value_of(codec, await anext(messages_left))
        except StopAsyncIteration:
            return
        except DecodeError as error:
            raise _BadMessage(f"not a valid request: {error}") from None
        except ValueError as error:
            raise _BadMessage(f"not a valid request: {error}") from error
        yield value


async def answered(response: Awaitable[Response], context: Context) -> Response:
    """Return the handler's response; a Refusal that it raised ends the call with its one-line text."""
    try:
        return await response
    except Refusal as refusal:
        await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, str(refusal))


async def _abort(context: Context, code: grpc.StatusCode, details: str) -> NoReturn:
    await context.abort(code, fitting(details))
    raise AssertionError("abort always raises")


def fitting(details: str) -> str:
    """Return the text as gRPC can send it: cut to REASON_BYTES_MAX, and without bytes that are not UTF-8."""
    text = details.encode("utf-8", "backslashreplace").decode()
    room = REASON_BYTES_MAX
    for position, character in enumerate(text):
        room -= 1 if " " <= character <= "~" and character != "%" else _ESCAPED_BYTE_SIZE * len(character.encode())
        if room < 0:
            return text[:position] + "..."
    return text


class _Unanswered(Generic[Response]):
    """Requests of one stream that were begun and have no response yet."""

    def __init__(self, in_progress: RequestsInProgress) -> None:
        self._responses: set[asyncio.Future[Response]] = set()
        self._in_progress = in_progress

    def __len__(self) -> int:
        return len(self._responses)

    async def begin_all(
        self,
        requests: AsyncIterator[Request],
        begin: Handler[Request, Response],
        begun: Callable[[asyncio.Future[Response] | None], Awaitable[None]],
    ) -> None:
        """Begin requests as they arrive; `begun` gets the future of each response, and None at the end."""
        pace = CALLER.get().pace
        try:
            async for request in requests:
                if pace.is_paused:
                    await pace.over()
                response = asyncio.ensure_future(begin(request))
                self._responses.add(response)
                self._in_progress.begun()
                await begun(response)
        finally:
            await begun(None)

    def answered(self, response: asyncio.Future[Response]) -> None:
        self._responses.discard(response)
        self._in_progress.ended()

    def cancel(self) -> None:
        for response in self._responses:
            response.cancel()
            self._in_progress.ended()


async def _read_to_the_end(reading: asyncio.Task[None], context: Context) -> None:
    """Raise what ended the reading of requests, once those before are answered."""
    try:
        await reading
    except _BadMessage as error:
        await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))


async def in_order(
    requests: AsyncIterator[Request],
    begin: StreamHandler[Request, Response],
    context: Context,
    in_progress: RequestsInProgress,
) -> AsyncIterator[Response]:
    """Begin requests as they arrive, many at once, and yield their responses in the order of the requests."""
    begun: asyncio.Queue[asyncio.Future[Response | None] | None] = asyncio.Queue(STREAM_REQUESTS_IN_FLIGHT_MAX)
    unanswered = _Unanswered[Response | None](in_progress)
    reading = asyncio.create_task(unanswered.begin_all(requests, begin, begun.put))
    try:
        while (response := await begun.get()) is not None:
            answer = await answered(response, context)
            if answer is not None:
                yield answer
            unanswered.answered(response)
        await _read_to_the_end(reading, context)
    finally:
        reading.cancel()
        unanswered.cancel()
        # Empties the queue, so that a reader that waits for a place in it can end.
        while not begun.empty():
            begun.get_nowait()


async def as_ready(
    requests: AsyncIterator[Request],
    begin: Handler[Request, Response],
    context: Context,
    in_progress: RequestsInProgress,
) -> AsyncIterator[Response]:
    """Begin requests as they arrive, many at once, and yield each response as soon as it is there."""
    ready: asyncio.Queue[asyncio.Future[Response] | None] = asyncio.Queue()
    unanswered = _Unanswered[Response](in_progress)
    has_room = asyncio.Event()

    async def begun(response: asyncio.Future[Response] | None) -> None:
        if response is None:
            ready.put_nowait(None)
            return
        response.add_done_callback(ready.put_nowait)
        while len(unanswered) >= EXCHANGE_REQUESTS_WAITING_MAX:
            has_room.clear()
            await has_room.wait()

    reading = asyncio.create_task(unanswered.begin_all(requests, begin, begun))
    has_ended = False
    try:
        while len(unanswered) or not has_ended:
            if (response := await ready.get()) is None:
                has_ended = True
                continue
            yield await answered(response, context)
            unanswered.answered(response)
            has_room.set()
        await _read_to_the_end(reading, context)
    finally:
        reading.cancel()
        unanswered.cancel()
