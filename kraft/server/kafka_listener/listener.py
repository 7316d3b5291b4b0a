"""Where clients of Kafka's protocol connect: accepts, counts, watches over, and sends home."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from kraft.rpc.refusal_log import RefusalLog
from kraft.runtime.allocator import release_freed_memory
from kraft.server.kafka_listener.connection import ConnectionLimits, KafkaConnection, Requests
from kraft.server.kafka_listener.memory import ListenerMemory
from kraft.server.kafka_listener.receive_buffer import ReceiveBuffer

log = structlog.get_logger()

SCRATCH_BYTES: Final = 256 * 1024

BACKLOG: Final = 1_024
"""Connections that have not been accepted yet; many clients come back at once when a broker does."""

CHECK_PERIOD_S: Final = 1.0

GIVE_BACK_AFTER_S: Final = 0.1
"""So often is freed memory given back while there is a crowd. It takes a tenth of a millisecond for each MiB."""

VERY_LARGE_BYTES: Final = 64 * 1024
"""A request of so much leaves megabytes behind when it is answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    frame_bytes_max: int
    """`socket.request.max.bytes`"""

    connections_max: int
    """`max.connections`"""

    connection: ConnectionLimits


class KafkaListener:
    """At any number of addresses. Limits hold for the connections of all together."""

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
        self._giving_back: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int, make_requests: Callable[[str], Requests]) -> None:
        """`make_requests` makes what answers the requests of one connection there, from the client's address.

        Raises OSError when the address cannot be had.
        """

        def connect() -> KafkaConnection:
            return KafkaConnection(self, self._make_buffer, make_requests, self._limits.connection)

        loop = asyncio.get_running_loop()
        self._servers.append(await loop.create_server(connect, host or None, port, backlog=BACKLOG))
        if self._watch is None:
            self._watch = asyncio.create_task(self._check_connections(), name="kafka listener")

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def receiving_bytes(self) -> int:
        """That requests take which are partly there."""
        return self._memory.receive.held_bytes

    async def stop(self, grace_s: float) -> None:
        """Takes no more connections or requests, and gives those under way so long to be answered."""
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
        if self._giving_back is not None:
            self._giving_back.cancel()

    def _make_buffer(self, granted: Callable[[], None]) -> ReceiveBuffer:
        memory = self._memory
        return ReceiveBuffer(self._scratch, self._limits.frame_bytes_max, memory.receive, memory.large, granted)

    async def _check_connections(self) -> None:
        while True:
            await asyncio.sleep(CHECK_PERIOD_S)
            for connection in list(self._connections):
                connection.check()
            large = self._memory.large
            if self._memory.receive.held_bytes_most() > self._crowd_bytes or large.bytes_most > VERY_LARGE_BYTES:
                self._give_back_soon()
            large.bytes_most = 0

    def _give_back_soon(self) -> None:
        """What a crowd has used and freed lies scattered among what others use, and the next one would need more."""
        if self._giving_back is None:
            self._giving_back = asyncio.get_running_loop().call_later(GIVE_BACK_AFTER_S, self._give_back)

    def _give_back(self) -> None:
        self._giving_back = None
        release_freed_memory()

    # --- what connections tell -----------------------------------------------------------------------------------

    def opened(self, connection: KafkaConnection) -> bool:
        self._connections.add(connection)
        if self._is_stopping:
            # It was accepted a moment before.
            connection.drain()
        return len(self._connections) <= self._limits.connections_max

    def closed(self, connection: KafkaConnection, reason: str | None) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._none_left.set()
        if reason is not None:
            self._refusals.tell(connection.peer, reason)

    def unread(self, connection: KafkaConnection, size_bytes: int) -> bool:
        unread = self._memory.unread
        unread.note(connection, size_bytes)
        if unread.is_crowded:
            self._give_back_soon()
        return unread.is_crowded

    def failed(self, connection: KafkaConnection, error: BaseException) -> None:
        # Our own bug: the place it happened at is what its report needs.
        log.error("internal error", peer=connection.peer, exc_info=error)
