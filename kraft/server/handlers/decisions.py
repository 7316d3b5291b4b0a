"""Interface between the controller's handlers and its one writer, which decides one command after the other."""

from __future__ import annotations

from typing import Protocol, TypeVar

from kraft.metadata.decision import Decide
from kraft.metadata.image import MetadataImage

Response = TypeVar("Response")


class Decisions(Protocol):
    @property
    def image(self) -> MetadataImage: ...

    def check_active(self) -> None:
        """Raise Refusal NOT_CONTROLLER unless this node is the active controller."""

    async def submit(self, decide: Decide[Response]) -> Response:
        """Return the decision's response once it is committed. Raises the decision's Refusal, or NOT_CONTROLLER."""
