"""Declaration of a gRPC call, used by both ends: its name, and the types of its request and response.

The proto file names the messages. A value whose fields differ from its message's raises TypeError at its first use;
tests compare them all.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from msgspec import Struct

from kraft.rpc.mapping import Mapping

Request = TypeVar("Request")
Response = TypeVar("Response")


class Served(Struct, frozen=True):
    """A call and the handler that serves it. A Refusal that the handler raises ends the call."""

    call: AnyCall
    handler: Callable[..., Any]
    takes_peer: bool = False
    """The handler also gets the caller's address, formatted for messages."""


class _Declaration(Generic[Request, Response]):
    def __init__(self, service: ServiceDescriptor, name: str, request: type[Request], response: type[Response]) -> None:
        messages = service.methods_by_name[name]
        self.service: str = service.full_name
        self.name = name
        self.method = f"/{self.service}/{name}"
        # Message classes exist only at run time, so for a type checker they are Any.
        self.request: Mapping[Request, Any] = Mapping(request, GetMessageClass(messages.input_type))
        self.response: Mapping[Response, Any] = Mapping(response, GetMessageClass(messages.output_type))

    def __repr__(self) -> str:
        return self.method


class Call(_Declaration[Request, Response]):
    """A unary call: one request, one response."""

    def __init__(
        self,
        service: ServiceDescriptor,
        name: str,
        request: type[Request],
        response: type[Response],
        *,
        long_list: str | None = None,
    ) -> None:
        """`long_list` names a list in the response that takes long to encode, so it is encoded in parts."""
        super().__init__(service, name, request, response)
        self.long_list = long_list

    def served_by(self, handler: Callable[[Request], Awaitable[Response]]) -> Served:
        return Served(self, handler)

    def served_to_peer_by(self, handler: Callable[[Request, str], Awaitable[Response]]) -> Served:
        """Bind a handler that also gets the caller's address."""
        return Served(self, handler, takes_peer=True)


class ServerStream(_Declaration[Request, Response]):
    """A call with one request, and responses until either end ends it."""

    def served_by(self, handler: Callable[[Request], AsyncGenerator[Response, None]]) -> Served:
        return Served(self, handler)


class Stream(_Declaration[Request, Response]):
    """A bidirectional call: requests in order, and responses in the same order."""

    def served_by(self, handler: Callable[[Request], Awaitable[Response | None]]) -> Served:
        """Bind the handler. It does what must happen in order before it returns its awaitable; None is no response."""
        return Served(self, handler)


AnyCall = Call[Any, Any] | ServerStream[Any, Any] | Stream[Any, Any]


def service_of(proto_file: FileDescriptor, name: str) -> ServiceDescriptor:
    service: ServiceDescriptor = proto_file.services_by_name[name]
    return service
