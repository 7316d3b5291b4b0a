"""A call of a gRPC service, declared once for both ends: its name, and the values that its messages stand for.

The proto file says which messages those are. A value whose fields have other names than its message raises at import.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from kraft.rpc.mapping import Mapping

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True, slots=True)
class Served:
    """A call and the handler that answers it here. A Refusal out of the handler ends the call."""

    call: AnyCall
    handler: Callable[[Any], Any]


class _Declaration(Generic[Request, Response]):
    def __init__(self, service: ServiceDescriptor, name: str, request: type[Request], response: type[Response]) -> None:
        messages = service.methods_by_name[name]
        self.service: str = service.full_name
        self.name = name
        self.method = f"/{self.service}/{name}"
        # The classes of messages are known only here, when this runs: to a type checker they are any.
        self.request: Mapping[Request, Any] = Mapping(request, GetMessageClass(messages.input_type))
        self.response: Mapping[Response, Any] = Mapping(response, GetMessageClass(messages.output_type))

    def __repr__(self) -> str:
        return self.method


class Call(_Declaration[Request, Response]):
    """One request, one answer."""

    def __init__(
        self,
        service: ServiceDescriptor,
        name: str,
        request: type[Request],
        response: type[Response],
        *,
        long_list: str | None = None,
    ) -> None:
        """`long_list` names a list of the answer that takes long to encode: others have their turn meanwhile."""
        super().__init__(service, name, request, response)
        self.long_list = long_list

    def served_by(self, handler: Callable[[Request], Awaitable[Response]]) -> Served:
        return Served(self, handler)


class ServerStream(_Declaration[Request, Response]):
    """One request, and answers until either end has enough."""

    def served_by(self, handler: Callable[[Request], AsyncGenerator[Response, None]]) -> Served:
        return Served(self, handler)


class Stream(_Declaration[Request, Response]):
    """Requests in order, and answers in the same order."""

    def served_by(self, handler: Callable[[Request], Awaitable[Response | None]]) -> Served:
        """None answers nothing. The handler has done what has to be done in order by the time it hands back its
        awaitable.
        """
        return Served(self, handler)


AnyCall = Call[Any, Any] | ServerStream[Any, Any] | Stream[Any, Any]


def service_of(proto_file: FileDescriptor, name: str) -> ServiceDescriptor:
    service: ServiceDescriptor = proto_file.services_by_name[name]
    return service
