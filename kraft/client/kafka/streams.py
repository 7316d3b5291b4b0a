"""Streams of produce requests and of fetches, each over a connection of its own, answered in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from kraft.client.kafka.data_messages import fetch_message, fetch_result, produce_message, produce_result
from kraft.client.kafka.dialling import LoggedInConnection
from kraft.client.kafka.refusals import check_whole
from kraft.model.errors import Refusal
from kraft.model.fetch import FetchRequest
from kraft.model.produce import ACKS_NONE, ProduceRequest
from kraft.rpc.peers import Explain, Unreachable
from kraft.wire.declaration import Message

Request = TypeVar("Request")
Response = TypeVar("Response")

Connect = Callable[[], Awaitable[LoggedInConnection]]


class DataMessages(Struct, Generic[Request, Response], frozen=True):
    """How the requests of a stream are said in Kafka's protocol."""

    message: Callable[[Request], Message]
    result: Callable[[Request, Any], Response]
    """Raises ValueError for a response that does not answer the request."""

    is_answered: Callable[[Request], bool]


def _is_answered(request: ProduceRequest) -> bool:
    return request.acks != ACKS_NONE


def _is_always(_: FetchRequest) -> bool:
    return True


PRODUCED = DataMessages(produce_message, produce_result, _is_answered)
FETCHED = DataMessages(fetch_message, fetch_result, _is_always)


class KafkaStream(Generic[Request, Response]):
    """Opens its connection with the first request. Two tasks may send and receive at the same time."""

    def __init__(
        self, address: str, connect: Connect, messages: DataMessages[Request, Response], explain: Explain
    ) -> None:
        self._address = address
        self._connect = connect
        self._messages = messages
        self._explain = explain
        self._opened: LoggedInConnection | None = None
        self._sent: deque[tuple[Request, asyncio.Future[Any]]] = deque()
        self._ended: Unreachable | Refusal | None = None
        self._changed = asyncio.Event()

    async def send(self, request: Request) -> None:
        """Send a request, when there is room in the connection. Raises as `receive` does."""
        if self._ended is not None:
            raise self._ended
        try:
            if self._opened is None:
                self._take(await self._connect())
            assert self._opened is not None, "it was taken"
            connection = await self._opened.ready()
            message = self._messages.message(request)
            if self._messages.is_answered(request):
                self._sent.append((request, await connection.begin(message)))
                self._changed.set()
            else:
                await connection.tell(message)
        except (Unreachable, Refusal) as error:
            raise await self._failed(error) from error

    async def receive(self) -> Response:
        """Return the next response. Raises Unreachable if the connection ended or broke, or a Refusal."""
        while not self._sent:
            if self._ended is not None:
                raise self._ended
            self._changed.clear()
            await self._changed.wait()
        request, answer = self._sent[0]
        try:
            # Cancelled, it is received by the next call.
            response = await asyncio.shield(answer)
            self._sent.popleft()
            check_whole(response)
            return self._messages.result(request, response)
        except ValueError as error:
            raise await self._failed(Unreachable(self._address, str(error))) from error
        except (Unreachable, Refusal) as error:
            raise await self._failed(error) from error

    async def finish(self) -> None:
        """Wait until the broker has carried out every request, and end the stream. Raises as `receive` does."""
        if self._opened is not None:
            try:
                # A broker carries out the requests of a connection in their order.
                await self._opened.connection.request(self._opened.connection.versions_request)
            except (Unreachable, Refusal) as error:
                raise await self._failed(error) from error
        self._end(Unreachable(self._address, "the stream is finished"))

    async def close(self) -> None:
        """Close the connection; pending responses are dropped, and a task that waits for one gets Unreachable."""
        self._end(Unreachable(self._address, "the stream is closed"))

    def _take(self, opened: LoggedInConnection) -> None:
        self._opened = opened
        if self._ended is not None:
            # The stream was closed meanwhile.
            opened.connection.close()
            raise self._ended

    async def _failed(self, error: Unreachable | Refusal) -> Unreachable | Refusal:
        if self._ended is None:
            self._end(await self._explain(self._address, error))
        return self._ended or error

    def _end(self, error: Unreachable | Refusal) -> None:
        self._ended = self._ended or error
        self._changed.set()
        if self._opened is not None:
            self._opened.connection.close(str(error))
