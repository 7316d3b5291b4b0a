"""The answering end of exchanges over connections of their own, see `frame_exchange`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import structlog

from kraft.log.format.record_batch import Buffer
from kraft.model.refused_for import RefusedFor
from kraft.rpc.call import Exchange, ExchangeHandler, ServedCall
from kraft.rpc.frame_connection import FrameConnection, TakeOver
from kraft.rpc.frame_exchange import HELLO_VERSION, admitting, connection_method, read_hello
from kraft.rpc.gatekeeper import Gatekeeper
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.services import EXCHANGE_REQUESTS_WAITING_MAX

log = structlog.get_logger()

REQUEST_BYTES_MAX: Final = 16 * 1024 * 1024
"""Limit on one request: some 299,000 partitions."""


class ServedFrames:
    """Connections on which an exchange is served, until `close`."""

    def __init__(self, served: ServedCall, gatekeeper: Gatekeeper, refusals: RefusalLog) -> None:
        """`gatekeeper` is that of the GRPC listener, which opens the sessions."""
        assert isinstance(served.call, Exchange), "calls of messages are served by gRPC"
        self._exchange: Exchange[Any, Any] = served.call
        self._handler = served.handler
        self._gatekeeper = gatekeeper
        self._refusals = refusals
        self._connections: set[_ServedConnection] = set()
        self._is_closed = False

    def admit(self, version: int, frame: Buffer, peer: str, certificate: bytes | None = None) -> TakeOver:
        """Admit the node whose first frame this is. `certificate`: what this node showed it, with TLS.

        Raises Unintroduced, and ValueError for a frame that is none.
        """
        if self._is_closed:
            raise ValueError("this node stops")
        if version != HELLO_VERSION:
            raise ValueError(f"version {version} of introductions is not supported")
        nonce, introduction = read_hello(frame)
        proof = self._gatekeeper.admit_connection(
            connection_method(self._exchange, certificate), introduction, nonce, peer
        )

        def take_over(transport: asyncio.Transport) -> None:
            connection = _ServedConnection(
                self._exchange, self._handler, peer, self._refusals, self._connections.discard
            )
            self._connections.add(connection)
            connection.begin(transport, proof)

        return take_over

    def close(self) -> None:
        """Close all connections, and admit none from now on."""
        self._is_closed = True
        for connection in list(self._connections):
            connection.close()


class _ServedConnection:
    def __init__(
        self,
        exchange: Exchange[Any, Any],
        handler: ExchangeHandler[Any, Any],
        peer: str,
        refusals: RefusalLog,
        ended: Callable[[_ServedConnection], None],
    ) -> None:
        self._exchange = exchange
        self._handler = handler
        self._peer = peer
        self._refusals = refusals
        self._report_end = ended
        self._unanswered: set[asyncio.Task[None]] = set()
        self._ready: deque[Callable[[], Any]] = deque()
        self._is_reading = True
        self._takes_requests = True
        """False after an invalid one."""
        self._ends_when_written = False
        self._connection = FrameConnection(
            frame_bytes_max=REQUEST_BYTES_MAX,
            received=self._received,
            ended=self._ended,
            may_write=self._write_ready,
            unreadable=self._refuse,
        )

    def begin(self, transport: asyncio.Transport, proof: bytes) -> None:
        transport.set_protocol(self._connection)
        self._connection.connection_made(transport)
        self._connection.send([admitting(proof)])

    def close(self) -> None:
        self._connection.abort("this node stops")

    def _received(self, frame: Buffer) -> None:
        if not self._takes_requests:
            return
        try:
            request = self._exchange.request.to_value(frame)
        except ValueError as error:
            self._refuse(str(error))
            return
        task = asyncio.create_task(self._answer(request))
        self._unanswered.add(task)
        task.add_done_callback(self._answered)
        if self._is_reading and len(self._unanswered) >= EXCHANGE_REQUESTS_WAITING_MAX:
            self._is_reading = False
            self._connection.pause_reading()

    def _refuse(self, reason: str) -> None:
        """End the connection, after the responses to earlier requests that are ready."""
        text = f"{self._exchange.method}: not a valid request: {reason}"
        self._refusals.log(self._peer, text, RefusedFor.REQUEST)
        self._takes_requests = False
        self._connection.pause_reading()
        # Requests that came in the same read have not begun yet.
        asyncio.get_running_loop().call_soon(self._end_when_written)

    def _end_when_written(self) -> None:
        self._ends_when_written = True
        self._write_ready()

    async def _answer(self, request: Any) -> None:
        self._ready.append(await self._handler(request))
        self._write_ready()

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._unanswered.discard(task)
        if not self._is_reading and len(self._unanswered) < EXCHANGE_REQUESTS_WAITING_MAX:
            self._is_reading = True
            self._connection.resume_reading()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _write_ready(self) -> None:
        try:
            while self._ready and not self._connection.is_full:
                self._connection.send(self._exchange.response.pieces(self._ready.popleft()()))
        except Exception as error:  # noqa: BLE001  Nobody else awaits it where the connection has room again.
            self._fail(error)
        if self._ends_when_written and not self._ready:
            self._connection.close("invalid request")

    def _fail(self, error: BaseException) -> None:
        # A bug of ours: a report needs the traceback.
        log.error("internal error", call=self._exchange.method, peer=self._peer, exc_info=error)
        self._connection.abort("internal error")

    def _ended(self, _: str) -> None:
        for task in self._unanswered:
            task.cancel()
        self._ready.clear()
        self._report_end(self)
