"""What a handler of the active controller needs of it: one writer, that decides one command after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage

Response = TypeVar("Response")


class Decisions(Protocol):
    @property
    def image(self) -> MetadataImage: ...

    def check_active(self) -> None:
        """Raises Refusal NOT_CONTROLLER."""

    async def submit(self, decide: Callable[[MetadataImage], Decision[Response]]) -> Response:
        """The answer comes when the decision is committed. Raises the decision's Refusal, or NOT_CONTROLLER."""
