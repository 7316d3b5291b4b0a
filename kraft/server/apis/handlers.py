"""Handlers that are the same for many APIs: answers from metadata, and requests that the controller decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from kraft.metadata.image import MetadataImage
from kraft.rpc.call import Call
from kraft.server.apis.api import BrokerSide, Handler

Request = TypeVar("Request")
Response = TypeVar("Response")


class _HasImage(Protocol):
    @property
    def image(self) -> Callable[[], MetadataImage]: ...


def from_metadata(
    query: Callable[[MetadataImage, Request], Response],
) -> Callable[[_HasImage], Handler[Request, Response]]:
    """Return what makes a handler that answers from metadata alone: a broker's, or a controller's."""

    def handler(side: _HasImage) -> Handler[Request, Response]:
        async def answer(request: Request) -> Response:
            return query(side.image(), request)

        return answer

    return handler


def forwarded(
    call: Call[Request, Response], is_applied: Callable[[MetadataImage, Request, Response], bool]
) -> Callable[[BrokerSide], Handler[Request, Response]]:
    """Return what makes a broker's handler that forwards to the active controller, and answers once its decision
    is applied here too: `is_applied` returns whether an image shows it.
    """

    def handler(broker: BrokerSide) -> Handler[Request, Response]:
        return lambda request: broker.forwarder.decided(call, request, is_applied)

    return handler
