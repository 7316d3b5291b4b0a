"""Listener for Kafka clients: accepts, counts, checks and closes their connections."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import structlog
from msgspec import Struct

from kraft.model.callbacks import Callback
from kraft.rpc.refusal_log import RefusalLog
from kraft.runtime.allocator import release_freed_memory
from kraft.server.kafka_listener.connection import ConnectionLimits, KafkaConnection, MakeRequests
from kraft.server.kafka_listener.memory import ListenerMemory
from kraft.server.kafka_listener.receive_buffer import ReceiveBuffer
from kraft.server.loop.crowds import ACCEPTED_AT_ONCE, lengthen_queues
from kraft.server.loop.periods import period_end

log = structlog.get_logger()

SCRATCH_BYTES: Final = 2 << 20
"""The most that is received at once. Of usual batches (64 KiB) that is 2 to 3 ms of the event loop."""

BACKLOG: Final = 1_024
"""Connections that wait to be accepted: many clients reconnect at once when a broker restarts."""

CHECK_PERIOD_S: Final = 1.0

RETURN_MEMORY_AFTER_S: Final = 0.1
"""Delay before freed memory is returned to the system, and so its shortest interval; it takes 0.1 ms per MiB."""

VERY_LARGE_BYTES: Final = 64 * 1024
"""A non-Produce request of this size leaves megabytes of freed memory behind."""


class ListenerLimits(Struct, frozen=True, kw_only=True):
    frame_bytes_max: int
    """`socket.request.max.bytes`"""

    connections_max: int
    """`max.connections`"""

    connection: ConnectionLimits


class KafkaListener:
    """Listener at any number of addresses. The limits hold for all their connections together."""

    def __init__(self, limits: ListenerLimits, refusals: RefusalLog, memory: ListenerMemory) -> None:
        self._limits = limits
        self._refusals = refusals
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._memory = memory
        self._connections: set[KafkaConnection] = set()
        self._none_left = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self._is_stopping = False
        self._watch: asyncio.Task[None] | None = None
        self._crowd_bytes = limits.frame_bytes_max // 4
        self._returning_memory: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int, make_requests: MakeRequests) -> None:
        """Listen at one more address. Raises OSError if it cannot be bound."""

        def connect() -> KafkaConnection:
            return KafkaConnection(self, self._make_buffer, make_requests, self._limits.connection)

        loop = asyncio.get_running_loop()
        server = await loop.create_server(connect, host or None, port, backlog=ACCEPTED_AT_ONCE)
        lengthen_queues(server.sockets, BACKLOG)
        self._servers.append(server)
        if self._watch is None:
            self._watch = asyncio.create_task(self._check_connections(), name="kafka listener")

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def receiving_bytes(self) -> int:
        """Memory held by requests that have arrived in part."""
        return self._memory.receive.held_bytes

    async def stop(self, grace_s: float) -> None:
        """Stop accepting connections and requests; wait up to `grace_s` for requests in progress."""
        self._is_stopping = True
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while self._connections:
                    self._none_left.clear()
                    await self._none_left.wait()
        for connection in list(self._connections):
            connection.abort()
        if self._watch is not None:
            self._watch.cancel()
        if self._returning_memory is not None:
            self._returning_memory.cancel()

    def _make_buffer(self, granted: Callback) -> ReceiveBuffer:
        memory = self._memory
        return ReceiveBuffer(self._scratch, self._limits.frame_bytes_max, memory.receive, memory.large, granted)

    async def _check_connections(self) -> None:
        while True:
            await period_end(CHECK_PERIOD_S)
            for connection in list(self._connections):
                connection.check()
            large = self._memory.large
            if self._memory.receive.take_held_most() > self._crowd_bytes or large.bytes_most > VERY_LARGE_BYTES:
                self._return_memory_soon()
            large.bytes_most = 0

    def _return_memory_soon(self) -> None:
        """Schedule returning freed memory: it is scattered among live memory, and later requests could not reuse it."""
        if self._returning_memory is None:
            self._returning_memory = asyncio.get_running_loop().call_later(RETURN_MEMORY_AFTER_S, self._return_memory)

    def _return_memory(self) -> None:
        self._returning_memory = None
        release_freed_memory()

    # --- called by connections -----------------------------------------------------------------------------------

    def opened(self, connection: KafkaConnection) -> bool:
        self._connections.add(connection)
        if self._is_stopping:
            # It was accepted just before the servers closed.
            connection.drain()
        return len(self._connections) <= self._limits.connections_max

    def closed(self, connection: KafkaConnection, reason: str | None) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._none_left.set()
        if reason is not None:
            self._refusals.log(connection.peer, reason)

    def unread(self, connection: KafkaConnection, size_bytes: int) -> bool:
        unread = self._memory.unread
        unread.note(connection, size_bytes)
        if unread.is_crowded:
            self._return_memory_soon()
        return unread.is_crowded

    def failed(self, connection: KafkaConnection, error: BaseException) -> None:
        # A bug of ours: a report needs the traceback.
        log.error("internal error", peer=connection.peer, exc_info=error)
