"""Messages that gRPC has handed over, and calls that bring none, by the connection that they came on.

gRPC tells nobody how much of a message has arrived. What a connection has received and not handed over is that, and the
bytes around messages, for which an allowance counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct

from kraft.model.callbacks import Callback, NowS
from kraft.rpc.client_gate import NOBODY, Caller
from kraft.rpc.user_agents import Software, software_in

CALL_BYTES: Final = 1_024
"""Allowance for the headers of a call."""

MESSAGE_BYTES: Final = 128
"""Allowance for what is around a message, and for what a client sends while it reads one."""

SIZE_SHARE: Final = 32
"""One of so many bytes is allowed for frames, and for TLS."""

HEADERS_BYTES: Final = 256
"""About as much has a call sent that has sent nothing of a message."""

EMPTY_CALLS_MAX: Final = 100
"""A connection may have so many calls without a message, and one more for each message that it has sent: open ones, and
those that ended so, less EMPTY_CALLS_PER_S. More may be a flood, or uploads that have not arrived."""

EMPTY_CALLS_PER_S: Final = 2
"""So many calls of a connection may end without a message for each second, as uploads do that a client cancels."""


def loop_s() -> float:
    return asyncio.get_running_loop().time()


@dataclass(slots=True)
class _MeasuredConnection:
    explained_bytes: int = 0
    messages: int = 0
    calls_begun: int = 0
    is_node: bool = False
    is_known: bool = False
    """Whether a call of it proved who makes it: a node, or a client that has logged in."""

    calls: set[OpenCall] = field(default_factory=set)
    received_bytes: int = 0
    """At the last look at its socket."""

    empty_calls: float = 0.0
    """Calls without a message: all open ones, and the ended ones that are not forgiven yet."""

    empty_open: int = 0
    has_too_many: bool = False
    began_s: float = 0.0
    """When its first call began."""

    caller: Caller = NOBODY
    """That of its last call."""

    software: Software | None = None


@dataclass(eq=False, slots=True)
class OpenCall:
    """A call that has not ended."""

    connection: _MeasuredConnection
    settled_bytes: int
    """Of what its connection has received, the first so many bytes at least are no part of what gRPC holds for it."""

    is_empty: bool = True
    """Whether it has brought no message."""

    waits_since_look: int = 0
    """The look that had begun last when its handler began to wait for a message."""


class Received(Struct, frozen=True, kw_only=True):
    """Counts for one connection."""

    explained_bytes: int
    """Bytes of its messages, with the allowances."""

    messages: int = 0
    settled_bytes: int
    """Of what it has received, the first so many bytes at least are no part of what gRPC holds for its open calls."""

    old_calls: int = 0
    """Open calls for which gRPC may hold what arrived before the last look."""

    bare_bytes: int = 0
    """About the bytes of its messages, and of the headers of its calls."""

    has_too_many: bool = False
    """Whether it has had too many calls without a message since the last look."""

    def is_flooding(self, received_bytes: int) -> bool:
        """Return whether a connection that has received so much has too many calls that are no uploads either."""
        return self.has_too_many and received_bytes <= self.bare_bytes


class KnownConnection(Struct, frozen=True, kw_only=True):
    """A connection of a client, with its last caller and the messages that it has sent."""

    peer: str
    began_s: float
    """When its first call began, by the clock of the counts."""

    caller: Caller
    software: Software
    messages: int


class ReceivedMessages:
    """Counts for one listener. A peer is gRPC's text for the address of the other end."""

    def __init__(self, flood_began: Callback = lambda: None, now_s: NowS = loop_s) -> None:
        self.now_s = now_s
        self.flood_began = flood_began
        """Called when a connection has too many calls without a message."""

        self._connections: dict[str, _MeasuredConnection] = {}
        self._looks_begun = self._looks_ended = 0

    @contextmanager
    def call(self, peer: str, *, is_node: bool, is_known: bool = False) -> Iterator[OpenCall | None]:
        """Count a call as open while this is entered; gives None for one that is to be refused.

        Those are calls of a connection that has too many already, and never sent a message.
        """
        connection = self._call_began(peer, is_node=is_node)
        connection.is_known |= is_node or is_known
        if connection.has_too_many and not connection.messages:
            yield None
            return
        call = OpenCall(connection, connection.received_bytes)
        connection.calls.add(call)
        connection.empty_open += 1
        try:
            yield call
        finally:
            connection.calls.discard(call)
            connection.empty_open -= call.is_empty

    def call_refused(self, peer: str) -> None:
        """Count a call that was refused before anything of it was read."""
        self._call_began(peer, is_node=False)

    def _call_began(self, peer: str, *, is_node: bool) -> _MeasuredConnection:
        connection = self._connections.get(peer)
        if connection is None:
            connection = self._connections[peer] = _MeasuredConnection(began_s=self.now_s())
        connection.explained_bytes += CALL_BYTES
        connection.calls_begun += 1
        connection.is_node |= is_node
        connection.empty_calls += 1
        is_too_many = connection.empty_calls > EMPTY_CALLS_MAX + connection.messages
        if is_too_many and not connection.is_node and not connection.has_too_many:
            connection.has_too_many = True
            self.flood_began()
        return connection

    def made_by(self, call: OpenCall, caller: Caller, metadata: Iterable[tuple[str, Any]]) -> None:
        """Take note of the caller. All calls of a connection are of one program, which says what it is in each."""
        call.connection.caller = caller
        if call.connection.software is None:
            call.connection.software = software_in(metadata)

    def of_clients(self) -> Iterator[KnownConnection]:
        """Yield the connections with a call, except those of nodes. Others may begin and end meanwhile."""
        for peer, each in list(self._connections.items()):
            if not each.is_node and not each.caller.is_node:
                yield KnownConnection(
                    peer=peer,
                    began_s=each.began_s,
                    caller=each.caller,
                    software=each.software or Software(),
                    messages=each.messages,
                )

    def reading_began(self, call: OpenCall) -> None:
        """Take note that its handler waits for the next message: gRPC holds none of it that is complete."""
        call.waits_since_look = self._looks_begun

    def message_came(self, call: OpenCall, size_bytes: int) -> None:
        connection = call.connection
        connection.explained_bytes += size_bytes + size_bytes // SIZE_SHARE + MESSAGE_BYTES
        connection.messages += 1
        if call.is_empty:
            call.is_empty = False
            connection.empty_open -= 1
            connection.empty_calls -= 1
        if call.waits_since_look < self._looks_ended:
            # Before that look, nothing but parts of this message had arrived that was not read.
            call.settled_bytes = connection.received_bytes

    def counts(self) -> dict[str, Received]:
        """Return the counts of each peer with a call."""
        return {peer: _received(connection) for peer, connection in self._connections.items()}

    def look_began(self) -> None:
        """Take note that the system is asked what has arrived."""
        self._looks_begun += 1

    def look_ended(self, received_bytes: Mapping[str, int], since_s: float) -> None:
        """Take what had arrived on each connection when the system was asked, a time after it was asked before."""
        self._looks_ended = self._looks_begun
        for peer, connection in self._connections.items():
            connection.received_bytes = received_bytes.get(peer, connection.received_bytes)
            forgiven = connection.empty_calls - EMPTY_CALLS_PER_S * since_s
            connection.empty_calls = max(float(connection.empty_open), forgiven)
            connection.has_too_many = False

    def is_known(self, peer: str) -> bool:
        return peer in self._connections and self._connections[peer].is_known

    def forget(self, peers: Iterable[str]) -> None:
        """Forget connections that have ended."""
        for gone in peers:
            self._connections.pop(gone, None)


def _received(connection: _MeasuredConnection) -> Received:
    last = connection.received_bytes
    settled = [call.settled_bytes for call in connection.calls]
    return Received(
        explained_bytes=connection.explained_bytes,
        messages=connection.messages,
        settled_bytes=min(settled, default=last),
        old_calls=sum(each < last for each in settled),
        bare_bytes=connection.explained_bytes - (CALL_BYTES - HEADERS_BYTES) * connection.calls_begun,
        has_too_many=connection.has_too_many,
    )
