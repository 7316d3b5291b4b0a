"""Declaration of a gRPC call, used by both ends: its name, and the types of its request and response.

The proto file names the messages. A value whose fields differ from its message's raises TypeError at its first use;
tests compare them all. The frames of an exchange are packed by functions of its own instead.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from msgspec import Struct

from kraft.log.format.record_batch import Buffer
from kraft.model.request_context import RequestContext
from kraft.rpc.mapping import Mapping, Parse, Serialize

Request = TypeVar("Request")
Response = TypeVar("Response")
Value = TypeVar("Value")

Handler = Callable[[Request], Awaitable[Response]]
"""Answers a request, or raises Refusal to refuse it as a whole."""

ServerStreamHandler = Callable[[Request], AsyncGenerator[Response, None]]

StreamHandler = Callable[[Request], Awaitable[Response | None]]
"""Does what must happen in order before it returns its awaitable; None is no response."""

ExchangeHandler = Callable[[Request], Awaitable[Callable[[], Response]]]
"""Its result makes the response, when the stream can send it: so each stream has one response in memory, however many
are ready.
"""


class ServedCall(Struct, frozen=True):
    """A call and the handler that serves it. A Refusal that the handler raises ends the call."""

    call: AnyCall
    handler: Callable[..., Any]
    context_version: int | None = None
    """The handler also gets a RequestContext, of this version. None: it does not."""


class MessageCodec(Protocol[Value]):
    """Converts values to messages and back; a message is what gRPC parses and serializes."""

    @property
    def parse(self) -> Parse: ...

    @property
    def serialize(self) -> Serialize: ...

    def to_message(self, value: Value, /) -> Any: ...

    def to_value(self, message: Any, /) -> Value:
        """Return the value. Raises ValueError if the message is invalid."""


class Packed(Generic[Value]):
    """Codec of values that are packed into bytes without a protobuf message."""

    def __init__(self, pieces: Callable[[Value], list[Buffer]], unpack: Callable[[Buffer], Value]) -> None:
        """`pieces` are the bytes of a value, in order; `unpack` raises ValueError for other bytes."""
        self.pieces = pieces
        self.to_value = unpack
        # Bytes stay the same object.
        self.parse: Parse = bytes
        self.serialize: Serialize = bytes

    def to_message(self, value: Value) -> bytes:
        return b"".join(self.pieces(value))


class _Declaration(Generic[Request, Response]):
    def __init__(
        self, service: str, name: str, request: MessageCodec[Request], response: MessageCodec[Response]
    ) -> None:
        self.service = service
        self.name = name
        self.method = f"/{service}/{name}"
        self.request = request
        self.response = response

    def __repr__(self) -> str:
        return self.method


class _OfMessages(_Declaration[Request, Response]):
    def __init__(self, service: ServiceDescriptor, name: str, request: type[Request], response: type[Response]) -> None:
        messages = service.methods_by_name[name]
        # Message classes exist only at run time, so for a type checker they are Any.
        self.request: Mapping[Request, Any]
        self.response: Mapping[Response, Any]
        super().__init__(
            service.full_name,
            name,
            Mapping(request, GetMessageClass(messages.input_type)),
            Mapping(response, GetMessageClass(messages.output_type)),
        )


class Call(_OfMessages[Request, Response]):
    """A unary call: one request, one response."""

    def served_by(self, handler: Handler[Request, Response]) -> ServedCall:
        return ServedCall(self, handler)

    def served_in_context_by(
        self, handler: Callable[[Request, RequestContext], Awaitable[Response]], version: int
    ) -> ServedCall:
        """Bind a handler that also gets a RequestContext, of this version."""
        return ServedCall(self, handler, context_version=version)


class ServerStream(_OfMessages[Request, Response]):
    """A call with one request, and responses until either end ends it."""

    def served_by(self, handler: ServerStreamHandler[Request, Response]) -> ServedCall:
        return ServedCall(self, handler)


class Stream(_OfMessages[Request, Response]):
    """A bidirectional call: requests in order, and responses in the same order."""

    def served_by(self, handler: StreamHandler[Request, Response]) -> ServedCall:
        return ServedCall(self, handler)


class Exchange(_Declaration[Request, Response]):
    """A bidirectional call of packed frames: requests, and responses in any order. A response says what it answers."""

    def __init__(self, service: str, name: str, request: Packed[Request], response: Packed[Response]) -> None:
        self.request: Packed[Request]
        self.response: Packed[Response]
        super().__init__(service, name, request, response)

    def served_by(self, handler: ExchangeHandler[Request, Response]) -> ServedCall:
        return ServedCall(self, handler)


AnyCall = Call[Any, Any] | ServerStream[Any, Any] | Stream[Any, Any] | Exchange[Any, Any]


def service_of(proto_file: FileDescriptor, name: str) -> ServiceDescriptor:
    service: ServiceDescriptor = proto_file.services_by_name[name]
    return service
