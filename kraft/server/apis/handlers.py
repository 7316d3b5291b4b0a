"""Handlers that are the same for many APIs: answers from metadata, and requests that the controller decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

from kraft.metadata.config_decisions import NodeConfigs
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.model.errors import Refusal
from kraft.rpc.call import Call, Handler
from kraft.server.apis.api import AtController
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.apis.sides import ControllerSide, Side
from kraft.server.handlers.forwarding import IsApplied

Request = TypeVar("Request")
Response = TypeVar("Response")


def from_metadata(query: Callable[[MetadataImage, Request], Response]) -> Callable[[Side], Handler[Request, Response]]:
    """Return what makes a handler that answers from metadata alone: a broker's, or a controller's."""

    def handler(side: Side) -> Handler[Request, Response]:
        async def answer(request: Request) -> Response:
            return query(side.image(), request)

        return answer

    return handler


def from_metadata_in_turns(
    query: Callable[[MetadataImage, Request], Awaitable[Response]],
) -> Callable[[Side], Handler[Request, Response]]:
    """Likewise, for a query that gives other tasks turns."""
    return lambda side: lambda request: query(side.image(), request)


def from_indexed_metadata(query: Callable[[MetadataImage, int], Response]) -> Callable[[Side], Handler[Any, Response]]:
    """Likewise, for a query that has no parameters and gets the index of the metadata."""

    def handler(side: Side) -> Handler[Any, Response]:
        async def answer(_: Any) -> Response:
            return query(side.image(), side.index())

        return answer

    return handler


def forwarded(
    call: Call[Request, Response], is_applied: IsApplied[Request, Response]
) -> Callable[[BrokerSide], Handler[Request, Response]]:
    """Return what makes a broker's handler that forwards to the active controller, and answers once its decision
    is applied here too.
    """

    def handler(broker: BrokerSide) -> Handler[Request, Response]:
        return lambda request: broker.forwarder.decided(call, request, is_applied)

    return handler


def decided(decide: Callable[[MetadataImage, Request], Decision[Response]]) -> AtController[Request, Response]:
    """Return what makes a controller's handler that decides from the image alone."""

    def handler(controller: ControllerSide) -> Handler[Request, Response]:
        return lambda request: controller.decisions.submit(lambda image: decide(image, request))

    return handler


def decided_with_configs(
    decide: Callable[[MetadataImage, Request, NodeConfigs], Decision[Response]],
) -> AtController[Request, Response]:
    """Return what makes a controller's handler that decides with the configs of its file."""

    def handler(controller: ControllerSide) -> Handler[Request, Response]:
        return lambda request: controller.decisions.submit(
            lambda image: decide(image, request, controller.node_configs(image))
        )

    return handler


def never_refused(_: object, refusal: Refusal) -> NoReturn:
    """Say that the handler refuses no request as a whole: its response has an error for each part of the request."""
    raise AssertionError("a request whose parts have errors of their own was refused") from refusal
