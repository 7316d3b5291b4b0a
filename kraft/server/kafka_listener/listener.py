"""Listener for Kafka clients: accepts, counts, checks and closes their connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog
from msgspec import Struct

from kraft.model.addresses import address_of, peer_of
from kraft.model.callbacks import Callback
from kraft.model.clients import ClientConnection
from kraft.model.refused_for import Refused, RefusedFor
from kraft.rpc.refusal_log import RefusalLog
from kraft.runtime.allocator import release_freed_memory
from kraft.server.kafka_listener.acceptor import Acceptor
from kraft.server.kafka_listener.answering import MakeRequests
from kraft.server.kafka_listener.connection import ConnectionLimits, KafkaConnection
from kraft.server.kafka_listener.connection_counts import ConnectionCountLimits, ConnectionCounts
from kraft.server.kafka_listener.creation_rate import AddressRates, Allowance
from kraft.server.kafka_listener.frame_buffer import FrameSizes
from kraft.server.kafka_listener.memory import STRANGERS_FRAME_BYTES_MAX, ListenerMemory
from kraft.server.kafka_listener.receive_buffer import ReceiveBuffer, ReceiveLimits
from kraft.server.kafka_listener.request_times import RequestTimes, TimedRequest
from kraft.server.kafka_listener.slow_requests import SlowRequestLog
from kraft.server.loop.periods import loop_time_s, period_end
from kraft.server.loop.throttling import Throttling
from kraft.server.loop.turns import Turns
from kraft.tls.contexts import ServerContext
from kraft.tls.handshakes import Handshakes, ServerHandshake, TlsPeer
from kraft.tls.session import TlsBuffers

log = structlog.get_logger()

SCRATCH_BYTES: Final = 2 << 20
"""The most that is received at once. Of usual batches (64 KiB) that is 2 to 3 ms of the event loop."""

CHECK_PERIOD_S: Final = 1.0

CHECKED_AT_ONCE_MAX: Final = 1_000
"""Connections that are checked in one turn of the loop: after a change of users, each takes some microseconds."""

ENDED_AT_ONCE_MAX: Final = 100
"""Connections that end in one turn, at some 50 us each, and more with TLS."""

DESCRIBED_AT_ONCE_MAX: Final = 500
"""Connections that are described in one turn, at some 3 us each."""

RETURN_MEMORY_AFTER_S: Final = 0.1
"""Delay before freed memory is returned to the system, and so its shortest interval; it takes 0.1 ms per MiB."""

VERY_LARGE_BYTES: Final = 64 * 1024
"""A non-Produce request of this size leaves megabytes of freed memory behind."""


class ListenerLimits(Struct, frozen=True, kw_only=True):
    frame_bytes_max: int
    """`socket.request.max.bytes`"""

    counts: ConnectionCountLimits
    connection: ConnectionLimits
    creation_rate_max: int | None = None
    """`max.connection.creation.rate`; None: no limit."""

    stranger_frame_bytes_max: int = STRANGERS_FRAME_BYTES_MAX
    """`sasl.server.max.receive.size`"""


class TlsAnswering(Struct, frozen=True):
    """Answers at an address with TLS."""

    context: Callable[[], ServerContext]
    after_handshake: Callable[[TlsPeer], MakeRequests]
    """Takes what both ends have shown. Raises ClientRefused."""


class KafkaListener:
    """Listener at any number of addresses. The limits hold for all their connections together."""

    def __init__(
        self,
        limits: ListenerLimits,
        refusals: RefusalLog,
        memory: ListenerMemory,
        tls_buffers: TlsBuffers | None = None,
        throttling: Throttling | None = None,
    ) -> None:
        """`tls_buffers` are those of this event loop. None: the listener has its own. `throttling` has the quotas of
        addresses.
        """
        self.times = RequestTimes()
        self.connections_of = Counter[str]()
        """Number of connections, by the name of the listener."""
        self.stranger_bytes = 0
        """Bytes that clients have sent before they logged in; without those of open connections, and of handshakes."""
        self._slow = SlowRequestLog(limits.connection.slow_s_min)
        self._throttling = throttling
        self._limits = limits
        self._refusals = refusals
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._memory = memory
        self._within = ReceiveLimits(FrameSizes(limits.frame_bytes_max), memory.receive, memory.large)
        stranger_sizes = FrameSizes(
            min(limits.stranger_frame_bytes_max, limits.frame_bytes_max), "sasl.server.max.receive.size", bytes_min=0
        )
        # Their requests are small, and nobody who is logged in waits behind them.
        self._strangers_within = ReceiveLimits(stranger_sizes, memory.strangers, None)
        self._counts = ConnectionCounts(limits.counts)
        self._rates = AddressRates()
        self._rate = allowance(limits.creation_rate_max)
        self._handshakes = Handshakes(
            tls_buffers or TlsBuffers(),
            lambda name, reason, refused_for: refusals.log(peer_of(name), reason, refused_for),
            self._handshake_opened,
            self._handshake_left,
        )
        self._connections: set[KafkaConnection] = set()
        self._strangers: dict[KafkaConnection, None] = {}
        """Those that have not logged in, the oldest first."""
        self._none_left = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._acceptors: list[Acceptor] = []
        self._is_stopping = False
        self._watch: asyncio.Task[None] | None = None
        self._crowd_bytes = limits.frame_bytes_max // 4
        self._returning_memory: asyncio.TimerHandle | None = None

    async def listen(
        self,
        host: str,
        port: int,
        answering: MakeRequests | TlsAnswering,
        *,
        asks_for_login: bool = False,
        creation_rate_max: int | None = None,
        refused: Callable[[str, str], None] | None = None,
        name: str = "",
    ) -> None:
        """Listen at one more address. `creation_rate_max` is a rate of the listener of that name alone.

        `refused` is told the address of each client that is not admitted, or whose TLS handshake fails, and the reason.

        Raises OSError if the address cannot be bound.
        """

        def connection(make_requests: MakeRequests) -> KafkaConnection:
            made = KafkaConnection(self, self._make_buffer, make_requests, self._limits.connection)
            made.listener_name = name
            return made

        def connect() -> asyncio.BufferedProtocol:
            if not isinstance(answering, TlsAnswering):
                return connection(answering)
            after_handshake = answering.after_handshake
            return ServerHandshake(
                self._handshakes,
                answering.context,
                lambda peer: connection(after_handshake(peer)),
                None if refused is None else lambda name, reason: refused(address_of(name), reason),
            )

        def admit(address: str) -> float | None:
            are_strangers = asks_for_login or isinstance(answering, TlsAnswering)
            return self._admit(address, refused, are_strangers=are_strangers)

        # So that it is known to have none.
        self.connections_of[name] += 0
        server = await asyncio.get_running_loop().create_server(connect, host or None, port, start_serving=False)
        self._servers.append(server)
        rates = [each for each in (self._rate, allowance(creation_rate_max)) if each is not None]
        for each in server.sockets:
            self._acceptors.append(Acceptor(each.fileno(), rates, admit, connect))
            self._acceptors[-1].start()
        if self._watch is None:
            self._watch = asyncio.create_task(self._check_connections(), name="kafka listener")

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def stranger_count(self) -> int:
        """Connections of clients that have not logged in."""
        return len(self._strangers) + len(self._handshakes)

    async def clients(self) -> list[ClientConnection]:
        """Return what is known of each connection, in no order."""
        turns, found = Turns(DESCRIBED_AT_ONCE_MAX), []
        for connection in list(self._connections):
            # It may have ended while others had their turn.
            if connection in self._connections:
                found.append(connection.described())
            await turns.done()
        return found

    @property
    def memory(self) -> ListenerMemory:
        """The budgets of memory for requests and responses."""
        return self._memory

    @property
    def receiving_bytes(self) -> int:
        """Memory held by requests that have arrived in part."""
        return self._memory.receive.held_bytes

    async def stop(self, grace_s: float) -> None:
        """Stop accepting connections and requests; wait up to `grace_s` for requests in progress."""
        self._is_stopping = True
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()
        for server in self._servers:
            server.close()
        self._handshakes.abort()
        await self._each(KafkaConnection.drain)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while self._connections:
                    self._none_left.clear()
                    await self._none_left.wait()
        await self._each(KafkaConnection.abort)
        if self._watch is not None:
            self._watch.cancel()
        if self._returning_memory is not None:
            self._returning_memory.cancel()

    def _make_buffer(self, granted: Callback) -> ReceiveBuffer:
        return ReceiveBuffer(self._scratch, self._within, granted)

    def _admit(self, address: str, refused: Callable[[str, str], None] | None, *, are_strangers: bool) -> float | None:
        """Return None to serve a connection, or for how many seconds to hold it and then close it."""
        objection = self._counts.objection(address, is_stranger=are_strangers)
        if objection is None and are_strangers and not self._rates.take(address, loop_time_s()):
            objection = f"{address} opens connections too fast"
        held_ms = 0
        if objection is None and self._throttling is not None and self._throttling.quotas.limits_addresses:
            held_ms = self._throttling.quotas.connected(address, self._throttling.now_ms())
            objection = f"{address} opens connections faster than its quota" if held_ms else None
        if objection is None:
            return None
        self._refusals.log(f"{address}:0", objection, RefusedFor.LIMIT)
        if refused is not None:
            refused(address, objection)
        # Otherwise a client that tries again at once would be refused all the more often.
        return held_ms / 1_000

    async def _check_connections(self) -> None:
        while True:
            await period_end(CHECK_PERIOD_S)
            await self._check_each()
            self._handshakes.check()
            large = self._memory.large
            if self._memory.receive.take_held_most() > self._crowd_bytes or large.bytes_most > VERY_LARGE_BYTES:
                self._return_memory_soon()
            large.bytes_most = 0

    async def _check_each(self) -> None:
        checked = ended = 0
        # What was looked at is not kept: to free thousands that have ended takes as long as to end them.
        unchecked = list(self._connections)
        while unchecked:
            # It may have ended while others had their turn.
            if (connection := unchecked.pop()) in self._connections:
                checked += 1
                ended += connection.check()
            if checked >= CHECKED_AT_ONCE_MAX or ended >= ENDED_AT_ONCE_MAX:
                checked = ended = 0
                await asyncio.sleep(0)

    async def _each(self, end: Callable[[KafkaConnection], None]) -> None:
        """End all connections in some way, some of them in each turn of the loop."""
        left = list(self._connections)
        while left:
            for _ in range(min(len(left), ENDED_AT_ONCE_MAX)):
                if (connection := left.pop()) in self._connections:
                    end(connection)
            await asyncio.sleep(0)

    def _return_memory_soon(self) -> None:
        """Schedule returning freed memory: it is scattered among live memory, and later requests could not reuse it."""
        if self._returning_memory is None:
            self._returning_memory = asyncio.get_running_loop().call_later(RETURN_MEMORY_AFTER_S, self._return_memory)

    def _return_memory(self) -> None:
        self._returning_memory = None
        release_freed_memory()

    # --- called by connections -----------------------------------------------------------------------------------

    def opened(self, connection: KafkaConnection) -> str | None:
        # Several may have been admitted since they were counted.
        objection = self._counts.objection(connection.address, is_stranger=connection.is_stranger)
        self._counts.opened(connection.address, is_stranger=connection.is_stranger)
        self._connections.add(connection)
        self.connections_of[connection.listener_name] += 1
        if connection.is_stranger:
            self._strangers[connection] = None
            connection.receive_within(self._strangers_within)
            self._make_room_for_strangers()
        if self._is_stopping:
            # It was accepted just before the servers closed.
            connection.drain()
        return objection

    def _make_room_for_strangers(self) -> None:
        if not self._counts.has_too_many_strangers:
            return
        if len(self._handshakes) > len(self._strangers):
            self._handshakes.refuse_oldest("others took its place before its TLS handshake was complete")
        elif self._strangers:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cut_off("others that had not logged in either took its place", RefusedFor.LIMIT)

    def _handshake_opened(self, name: object) -> str | None:
        address = address_of(name)
        objection = self._counts.objection(address, is_stranger=True)
        self._counts.opened(address, is_stranger=True)
        self._make_room_for_strangers()
        return objection

    def _handshake_left(self, name: object) -> None:
        self._counts.closed(address_of(name), is_stranger=True)

    def logged_in(self, connection: KafkaConnection) -> str | None:
        self._strangers.pop(connection, None)
        self.stranger_bytes += connection.received_bytes
        connection.receive_within(self._within)
        return self._counts.logged_in(connection.address)

    def closed(self, connection: KafkaConnection, refused: Refused | None) -> None:
        self._connections.discard(connection)
        self.connections_of[connection.listener_name] -= 1
        self._strangers.pop(connection, None)
        if connection.is_stranger:
            self.stranger_bytes += connection.received_bytes
        self._counts.closed(connection.address, is_stranger=connection.is_stranger)
        if not self._connections:
            self._none_left.set()
        if refused is not None:
            self._refusals.log(connection.peer, *refused)
            if connection.is_stranger:
                self._rates.failed(connection.address, loop_time_s())

    def answered_slowly(self, connection: KafkaConnection, request: TimedRequest) -> None:
        self._slow.note(connection.described(), request, loop_time_s())

    def unread(self, connection: KafkaConnection, size_bytes: int) -> bool:
        unread = self._memory.unread
        unread.note(connection, size_bytes)
        if unread.is_crowded:
            self._return_memory_soon()
        return unread.is_crowded

    def failed(self, connection: KafkaConnection, error: BaseException) -> None:
        # A bug of ours: a report needs the traceback.
        log.error("internal error", peer=connection.peer, exc_info=error)


def allowance(per_second: int | None) -> Allowance | None:
    """Return an allowance of so many connections; None: there is no limit."""
    if per_second is None:
        return None
    return Allowance(per_second, max(1, per_second), loop_time_s())
