"""Forwards requests to the active controller, and waits until this broker has applied the decision too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.call import Call
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.metadata_loader import MetadataLoader

LOCALLY_KNOWN_MAX_S: Final = 2.0
TIMEOUT_MAX_S: Final = 60.0


class TimedRequest(Protocol):
    @property
    def timeout_ms(self) -> int: ...


Request = TypeVar("Request", bound=TimedRequest)
Response = TypeVar("Response")


class NoAnswer(Refusal):
    """REQUEST_TIMED_OUT: no active controller answered within the request's timeout."""

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, reason)


class Forwarder:
    def __init__(self, loader: MetadataLoader, controllers: ControllerClient) -> None:
        self._loader = loader
        self._controllers = controllers

    @property
    def image(self) -> MetadataImage:
        """The metadata that this broker has applied."""
        return self._loader.image

    async def forward(self, call: Call[Request, Response], request: Request) -> Response:
        """Return the active controller's response. Raises NoAnswer, or the Refusal that it answers with."""
        try:
            timeout_s = min(max(request.timeout_ms, 0) / 1_000, TIMEOUT_MAX_S)
            return await self._controllers.call(call, request, timeout_s)
        except NoController as error:
            raise NoAnswer(str(error)) from error

    async def until(self, holds: Callable[[MetadataImage], bool]) -> None:
        """Wait until `holds` is true of this broker's image, at most LOCALLY_KNOWN_MAX_S.

        The client may ask this broker next, and should then see the change.
        """
        await self._loader.until(holds, LOCALLY_KNOWN_MAX_S)
