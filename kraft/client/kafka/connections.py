"""The connections of one client to brokers by Kafka's protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from kraft.client.kafka.composed import COMPOSED, MISSING
from kraft.client.kafka.dialling import Dialler, LoggedInConnection, SocketBuffers
from kraft.client.kafka.refusals import check_whole
from kraft.client.kafka.streams import FETCHED, PRODUCED, DataMessages, KafkaStream
from kraft.client.model.security import ClientSecurity
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.call import Call, Stream
from kraft.rpc.calls import FETCH, PRODUCE
from kraft.rpc.peers import Explain, Unreachable
from kraft.wire.declaration import Message

Request = TypeVar("Request")
Response = TypeVar("Response")

CONNECTIONS_MAX: Final = 8
"""Connections to one broker for requests that are made at the same time. A broker answers those of one connection in
their order, so a request that waits, as for the members of a group, has one to itself.
"""

_STREAMS: Final[dict[Any, DataMessages[Any, Any]]] = {PRODUCE: PRODUCED, FETCH: FETCHED}


class KafkaConnections:
    """Connections to brokers: some for each address, opened at first use."""

    def __init__(
        self, security: ClientSecurity, explain: Explain, software: str, socket_buffers: SocketBuffers
    ) -> None:
        """`software` is the name of the program for operators."""
        self._dialler = Dialler(security, software, socket_buffers)
        self._explain = explain
        self._peers: dict[tuple[str, str], KafkaPeer] = {}
        self._open: set[LoggedInConnection] = set()
        self._is_closed = False

    def peer(self, address: str, client_id: str = "") -> KafkaPeer:
        key = address, client_id
        if key not in self._peers:
            self._peers[key] = KafkaPeer(address, self._opening(address, client_id), self._explain)
        return self._peers[key]

    async def close(self) -> None:
        self._is_closed = True
        for each in list(self._open):
            each.connection.close()
        self._open.clear()

    def _opening(self, address: str, client_id: str) -> Callable[[], Coroutine[Any, Any, LoggedInConnection]]:
        async def open_one() -> LoggedInConnection:
            opened = await self._dialler.open(address, client_id)
            if self._is_closed:
                opened.connection.close()
                raise Unreachable(address, "the client is closed")
            self._open = {each for each in self._open if not each.connection.is_over}
            self._open.add(opened)
            return opened

        return open_one


class KafkaPeer:
    """A broker at the other end."""

    def __init__(
        self, address: str, connect: Callable[[], Coroutine[Any, Any, LoggedInConnection]], explain: Explain
    ) -> None:
        self.address = address
        self._connect = connect
        self._explain = explain
        self._idle: list[LoggedInConnection] = []
        self._free = asyncio.Semaphore(CONNECTIONS_MAX)

    async def call(self, call: Call[Request, Response], request: Request, timeout_s: float) -> Response:
        """Send a request and return the response. Raises Unreachable, or the Refusal of the whole request."""
        try:
            async with asyncio.timeout(timeout_s):
                response: Response = await self._answer(call, request)
                return response
        except TimeoutError:
            raise Unreachable(self.address, "no answer within the time allowed") from None
        except (Unreachable, Refusal) as error:
            raise await self._explain(self.address, error) from error

    def open(self, stream: Stream[Request, Response]) -> KafkaStream[Request, Response]:
        return KafkaStream(self.address, self._connect, _STREAMS[stream], self._explain)

    async def _answer(self, call: Call[Any, Any], request: Any) -> Any:
        if (compose := COMPOSED.get(call)) is not None:
            return await compose(self.ask, request)
        if call in MISSING or not isinstance(request, Message):
            raise Refusal(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Kafka's protocol has no {call.name}: use a broker's GRPC listener, without wire.protocol=kafka",
            )
        return await self.ask(request)

    async def ask(self, request: Message) -> Any:
        """Send a request over a connection that nothing else uses meanwhile. Raises as `call` does."""
        async with self._free:
            opened = await self._taken()
            try:
                response = await (await opened.ready()).request(request)
            except BaseException:
                # A late answer would be taken for that of the next request.
                opened.connection.close()
                raise
            self._idle.append(opened)
        check_whole(response)
        return response

    async def _taken(self) -> LoggedInConnection:
        while self._idle:
            opened = self._idle.pop()
            if not opened.connection.is_over:
                return opened
        return await self._connect()
