"""Listener of Kafka's protocol on a real socket; the first bytes of a request say how it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog
from structlog.testing import capture_logs

from kraft.local.free_ports import ReservedPorts
from kraft.model.clients import ClientWords
from kraft.model.principal import ANONYMOUS
from kraft.rpc.refusal_log import RefusalLog
from kraft.server.kafka_listener.answering import CloseConnection, HasToWait
from kraft.server.kafka_listener.connection import ConnectionLimits
from kraft.server.kafka_listener.connection_counts import ConnectionCountLimits
from kraft.server.kafka_listener.listener import KafkaListener, ListenerLimits
from kraft.server.kafka_listener.memory import ListenerMemory
from kraft.server.kafka_listener.response_writer import ResponseBytes

DEADLINE_S = 60.0


PATIENT = ListenerLimits(
    frame_bytes_max=1_000_000,
    counts=ConnectionCountLimits(clients_max=100, address_max=1_000),
    connection=ConnectionLimits(request_s_max=60, unread_s_max=60, idle_s_max=60),
)


@dataclass
class Requests:
    """`now,..` is answered at once, `wait..` when the test says so; `soon..` and `pipe..` likewise, while others wait.

    Nothing is pipelined behind a `hold..` until `go_on` is called. A `late..` has to wait at first.
    """

    begun: list[bytes] = field(default_factory=list)
    waiting: dict[bytes, asyncio.Future[bytes]] = field(default_factory=dict)
    cancelled: list[bytes] = field(default_factory=list)
    holds: bool = False
    waits: int = 0
    """How often a `late..` had to wait."""

    may_go_on: bool = False
    is_trusted: bool = True
    """False until `hello` was answered, for a listener that asks for a login."""

    is_muted: bool = False
    muted_ms: int = 0
    objects: str | None = None

    def objection(self) -> str | None:
        return self.objects

    def when_ready(self, go_on: Callable[[], None]) -> None:
        self.go_on = go_on

    def close(self) -> None:
        self.go_on = lambda: None

    def client(self) -> ClientWords:
        return ClientWords(principal=ANONYMOUS, client_id="", software_name="", software_version="")

    def is_pipelined(self, frame: memoryview) -> bool:
        return bytes(frame).startswith((b"pipe", b"soon", b"hold")) and not self.holds

    def begin(self, frame: memoryview) -> Awaitable[ResponseBytes] | ResponseBytes:
        request = bytes(frame)
        if request.startswith(b"late") and not self.may_go_on:
            self.waits += 1
            raise HasToWait
        self.begun.append(request)
        self.holds = request.startswith(b"hold")
        match request[:4]:
            case b"now," | b"soon":
                return framed(b"answer to " + request)
            case b"none":
                return []
            case b"shut":
                raise CloseConnection("asked to shut")
            case b"hell":
                self.is_trusted = True
                return self._waiting(request)
            case b"last":
                raise CloseConnection("asked to end", framed(b"last answer"))
            case b"fail":
                return self._failing(request)
            case b"bug ":
                raise ZeroDivisionError("a bug")
            case _:
                return self._waiting(request)

    async def _failing(self, request: bytes) -> ResponseBytes:
        await asyncio.sleep(0)
        raise CloseConnection("asked to fail", framed(b"last answer"))

    def _waiting(self, request: bytes) -> Awaitable[ResponseBytes]:
        self.waiting[request] = asyncio.get_running_loop().create_future()
        return self._wait(request)

    async def _wait(self, request: bytes) -> ResponseBytes:
        try:
            return framed(await self.waiting[request])
        except asyncio.CancelledError:
            self.cancelled.append(request)
            raise


def framed(content: bytes) -> ResponseBytes:
    return [len(content).to_bytes(4, "big"), content]


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *requests: bytes) -> None:
        self.writer.write(b"".join(piece for request in requests for piece in framed(request)))

    async def answer(self) -> bytes:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


@dataclass
class Served:
    listener: KafkaListener
    requests: Requests
    port: int
    clients: list[Client] = field(default_factory=list)

    async def client(self) -> Client:
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self.clients[-1]

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():  # noqa: ASYNC110  What is waited for happens on the other side of a socket.
            await asyncio.sleep(0.005)


@asynccontextmanager
async def served(limits: ListenerLimits) -> AsyncIterator[Served]:
    with ReservedPorts(1) as (port,):
        requests = Requests()
        listener = KafkaListener(limits, RefusalLog(lambda: 0), ListenerMemory(limits.frame_bytes_max))
        await listener.listen("127.0.0.1", port, lambda peer: requests)
        everything = Served(listener, requests, port)
        try:
            yield everything
        finally:
            for client in everything.clients:
                client.writer.close()
            await listener.stop(0)


def run(test: Callable[[Served], Coroutine[Any, Any, None]], limits: ListenerLimits = PATIENT) -> list[Any]:
    """Run the test and return its log lines."""

    async def with_deadline() -> None:
        async with asyncio.timeout(DEADLINE_S), served(limits) as everything:
            await test(everything)

    structlog.reset_defaults()
    with capture_logs() as lines:
        asyncio.run(with_deadline())
    return lines
