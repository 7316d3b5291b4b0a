"""A controller client whose active controller sends the test's answers."""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

from kraft.model.errors import Refusal
from kraft.rpc.call import Call
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.metadata_loader import MetadataLoader
from kraft.server.handlers.forwarding import Forwarder


class FakeControllers:
    """Answers by the names of calls. An answer may be a value, an exception, or a function of the request."""

    active_id = 1

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.takes_s = 0.0
        self.active: Any = None
        """The result of `active_peer`."""

    def as_client(self) -> ControllerClient:
        return cast(ControllerClient, self)

    def forwarder(self, loader: object) -> Forwarder:
        return Forwarder(cast(MetadataLoader, loader), self.as_client())

    def requests(self, name: str) -> list[Any]:
        return [request for asked, request in self.asked if asked == name]

    def active_peer(self) -> Any:
        return self.active

    async def call(self, call: Call[Any, Any], request: Any, deadline_s: float) -> Any:
        try:
            async with asyncio.timeout(deadline_s):
                await asyncio.sleep(self.takes_s)
        except TimeoutError:
            raise NoController("no controller is active: no time left to ask") from None
        name = python_name(call.name)
        self.asked.append((name, request))
        given = self.answers[name]
        if isinstance(given, NoController | Refusal):
            raise given
        return given(request) if callable(given) else given


def python_name(name: str) -> str:
    """`create_topics` for CreateTopics."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
