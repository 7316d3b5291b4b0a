"""Where clients of Kafka's protocol connect: accepts, counts, watches over, and sends home."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from kraft.rpc.refusal_log import RefusalLog
from kraft.server.kafka_listener.connection import ConnectionLimits, KafkaConnection, Requests
from kraft.server.kafka_listener.receive_budget import ReceiveBudget
from kraft.server.kafka_listener.receive_buffer import ReceiveBuffer
from kraft.server.kafka_listener.unread_answers import UnreadAnswers

log = structlog.get_logger()

SCRATCH_BYTES: Final = 256 * 1024

BACKLOG: Final = 1_024
"""Connections that have not been accepted yet; many clients come back at once when a broker does."""

CHECK_PERIOD_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    frame_bytes_max: int
    """`socket.request.max.bytes`. All requests that are partly there take as much memory again, and no more; so do all
    answers that are not read.
    """

    connections_max: int
    """`max.connections`"""

    connection: ConnectionLimits


class KafkaListener:
    """`make_requests` makes what answers the requests of one connection, from the client's address."""

    def __init__(
        self,
        limits: ListenerLimits,
        make_requests: Callable[[str], Requests],
        refusals: RefusalLog,
        unread: UnreadAnswers | None = None,
    ) -> None:
        self._limits = limits
        self._make_requests = make_requests
        self._unread = unread or UnreadAnswers(limits.frame_bytes_max)
        self._refusals = refusals
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._budget = ReceiveBudget(limits.frame_bytes_max)
        self._connections: set[KafkaConnection] = set()
        self._none_left = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> None:
        """Raises OSError when the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, host or None, port, backlog=BACKLOG)
        self._watch = asyncio.create_task(self._check_connections(), name="kafka listener")

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def stop(self, grace_s: float) -> None:
        """Takes no more connections or requests, and gives those under way so long to be answered."""
        if self._server is None:
            return
        self._server.close()
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

    def _connect(self) -> KafkaConnection:
        return KafkaConnection(self, self._make_buffer, self._make_requests, self._limits.connection)

    def _make_buffer(self, ask_again: Callable[[], None]) -> ReceiveBuffer:
        return ReceiveBuffer(self._scratch, self._limits.frame_bytes_max, self._budget, ask_again)

    async def _check_connections(self) -> None:
        while True:
            await asyncio.sleep(CHECK_PERIOD_S)
            for connection in list(self._connections):
                connection.check()

    # --- what connections tell -----------------------------------------------------------------------------------

    def opened(self, connection: KafkaConnection) -> bool:
        self._connections.add(connection)
        return len(self._connections) <= self._limits.connections_max

    def closed(self, connection: KafkaConnection, reason: str | None) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._none_left.set()
        if reason is not None:
            self._refusals.tell(connection.peer, reason)

    def unread(self, connection: KafkaConnection, size_bytes: int) -> bool:
        self._unread.note(connection, size_bytes)
        return self._unread.is_crowded

    def failed(self, connection: KafkaConnection, error: BaseException) -> None:
        # Our own bug: the place it happened at is what its report needs.
        log.error("bug", peer=connection.peer, exc_info=error)
