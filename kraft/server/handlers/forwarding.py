"""Forwards requests to the active controller, and waits until this broker has applied the decision too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from kraft.metadata.image import ImageCondition, MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.call import Call
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.metadata_loader import MetadataLoader

LOCALLY_KNOWN_MAX_S: Final = 2.0
TIMEOUT_MAX_S: Final = 60.0

DEFAULT_TIMEOUT_MS: Final = 30_000
"""Timeout of requests that have none: clients wait this long for any response by default."""

TIMEOUT_MS_MIN: Final = 1_000
"""A timeout of 0 only means not to wait for other brokers."""

Request = TypeVar("Request")
Response = TypeVar("Response")


IsApplied = Callable[[MetadataImage, Request, Response], bool]
"""Returns whether an image shows what was decided."""


class Forwarder:
    def __init__(self, loader: MetadataLoader, controllers: ControllerClient) -> None:
        self._loader = loader
        self._controllers = controllers

    @property
    def image(self) -> MetadataImage:
        """The metadata that this broker has applied."""
        return self._loader.image

    async def forward(self, call: Call[Request, Response], request: Request) -> Response:
        """Return the active controller's response.

        Raises REQUEST_TIMED_OUT if none answers within the request's timeout, or the Refusal that it answers with.
        """
        try:
            timeout_ms = max(getattr(request, "timeout_ms", DEFAULT_TIMEOUT_MS), TIMEOUT_MS_MIN)
            return await self._controllers.call(call, request, min(timeout_ms / 1_000, TIMEOUT_MAX_S))
        except NoController as error:
            raise Refusal(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error

    async def decided(
        self, call: Call[Request, Response], request: Request, is_applied: IsApplied[Request, Response]
    ) -> Response:
        """Forward, and return the response once this broker's image shows the decision. Raises as `forward` does."""
        response = await self.forward(call, request)
        if not getattr(request, "validate_only", False):
            await self.until(lambda image: is_applied(image, request, response))
        return response

    async def until(self, holds: ImageCondition) -> None:
        """Wait until `holds` is true of this broker's image, at most LOCALLY_KNOWN_MAX_S.

        The client may ask this broker next, and should then see the change.
        """
        await self._loader.until(holds, LOCALLY_KNOWN_MAX_S)
