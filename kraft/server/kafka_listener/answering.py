"""What a connection asks of the part that answers its requests, and how that part ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from kraft.model.callbacks import Callback
from kraft.model.clients import ClientWords
from kraft.model.refused_for import RefusedFor
from kraft.rpc.frame_connection import TakeOver
from kraft.server.kafka_listener.response_writer import ResponseBytes


class CloseConnection(Exception):
    """The connection closes after the request, of which the client gets `response`, if any.

    The message is one line that says why.
    """

    def __init__(
        self, reason: str, response: ResponseBytes | None = None, refused_for: RefusedFor = RefusedFor.REQUEST
    ) -> None:
        super().__init__(reason)
        self.response = response or []
        self.refused_for = refused_for


class HasToWait(Exception):
    """The request cannot be begun now. The function of `when_ready` is called when it can."""


class TakenOver(Exception):
    """The connection is not one of Kafka's protocol from here on: `serve` takes it over."""

    def __init__(self, serve: TakeOver) -> None:
        super().__init__()
        self.serve = serve


class Requests(Protocol):
    """Answers the requests of one connection."""

    @property
    def is_trusted(self) -> bool:
        """False until the client has logged in."""

    def client(self) -> ClientWords:
        """Return who the client is, as far as it has said."""

    def objection(self) -> str | None:
        """Return why the connection has to end although the client does nothing wrong. None if it may go on."""

    @property
    def is_muted(self) -> bool:
        """True while nothing is read, because the client used more than its quotas."""

    @property
    def muted_ms(self) -> int:
        """The time for which nothing is read from now on for this reason."""

    def when_ready(self, go_on: Callback) -> None:
        """Set `go_on`, which is called when `is_pipelined` or `is_muted` may have changed, and after HasToWait."""

    def close(self) -> None:
        """Call nothing any more: the connection has ended."""

    def is_pipelined(self, frame: memoryview) -> bool:
        """True if the request may be begun before earlier requests of its kind are answered."""

    def begin(self, frame: memoryview) -> Awaitable[ResponseBytes] | ResponseBytes:
        """Begin the request. The frame's bytes are valid until this returns.

        Raises CloseConnection and TakenOver, and HasToWait.
        """


MakeRequests = Callable[[str], Requests]
"""Takes a client's address, and makes what answers its requests."""
