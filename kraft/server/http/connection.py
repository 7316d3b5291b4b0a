"""One connection of the HTTP listener: a request at a time, each within deadlines and a bounded head."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol

import h11
import structlog

from kraft.server.http.messages import Handler, Request, Response, Routes, line

log = structlog.get_logger()

HEAD_BYTES_MAX: Final = 8 * 1024
HEAD_S_MAX: Final = 10.0
"""Time from the first byte of a request, or from the connection, to the end of its head."""
IDLE_S_MAX: Final = 300.0
"""Time between two requests. Prometheus keeps its connection for the next scrape."""
ANSWER_S_MAX: Final = 30.0
SEND_S_MAX: Final = 10.0
"""Time in which the client has to read each part of a response."""
RESPONSE_S_MAX: Final = 60.0
"""Time in which it has to read all of a response: Prometheus waits no longer than until its next scrape."""
PART_BYTES_MAX: Final = 256 * 1024

TOO_LARGE: Final = line(
    f"the head of a request has at most {HEAD_BYTES_MAX} bytes", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
)
_ALLOWED: Final = (b"GET", b"HEAD")


class ConnectionOwner(Protocol):
    def opened(self, connection: HttpConnection) -> None:
        """Note a new connection."""

    def closed(self, connection: HttpConnection) -> None:
        """Note that the connection has ended."""


class HttpConnection(asyncio.Protocol):
    def __init__(self, owner: ConnectionOwner, routes: Routes) -> None:
        self._owner = owner
        self._routes = routes
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._has_begun_head = False

    @property
    def is_answering(self) -> bool:
        return self._task is not None

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    # --- called by asyncio ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a TCP connection has both directions"
        self._transport = transport
        # More than one part of a response is not kept for a client that does not read.
        transport.set_write_buffer_limits(high=PART_BYTES_MAX)
        self._close_in(HEAD_S_MAX)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._http.their_state is h11.ERROR:
            return
        if not self._has_begun_head and not self.is_answering:
            self._has_begun_head = True
            self._close_in(HEAD_S_MAX)
        self._http.receive_data(data)
        self._read_on()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._task is not None:
            self._task.cancel()
        self._owner.closed(self)

    # --- requests and responses ----------------------------------------------------------------------------------

    def _read_on(self) -> None:
        if self.is_answering or self._transport.is_closing():
            return
        try:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._answer_soon(event)
            elif isinstance(event, h11.ConnectionClosed):
                self._transport.close()
        except h11.RemoteProtocolError as error:
            # The hint is 431 for a head that is too long. Other texts are the library's, about its own objects.
            is_long = error.error_status_hint == TOO_LARGE.status
            self._start(
                self._refuse(TOO_LARGE if is_long else line("not a request of HTTP/1.1", HTTPStatus.BAD_REQUEST))
            )

    def _answer_soon(self, request: h11.Request) -> None:
        if request.method not in _ALLOWED:
            self._start(self._refuse(line("only GET and HEAD are answered", HTTPStatus.METHOD_NOT_ALLOWED)))
        elif _size(request) > HEAD_BYTES_MAX:
            # The library's limit is for a head that has not arrived yet.
            self._start(self._refuse(TOO_LARGE))
        elif isinstance(self._http.next_event(), h11.EndOfMessage):
            self._start(self._answer(request))
        else:
            self._start(self._refuse(line("a request has no body here", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)))

    def _start(self, answering: Coroutine[Any, Any, None]) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        # While it is answered, what arrives waits with the system.
        self._transport.pause_reading()
        self._task = self._loop.create_task(self._answered(answering))

    async def _answered(self, answering: Coroutine[Any, Any, None]) -> None:
        await answering
        self._task = None
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._has_begun_head = bool(self._http.trailing_data[0])
            self._close_in(HEAD_S_MAX if self._has_begun_head else IDLE_S_MAX)
            self._transport.resume_reading()
            self._read_on()
        else:
            self._transport.close()
            self._close_in(SEND_S_MAX)

    async def _refuse(self, response: Response) -> None:
        await self._send(response, {"Connection": "close", "Allow": "GET, HEAD"})

    async def _answer(self, request: h11.Request) -> None:
        response = await self._response(request)
        await self._send(response, {}, has_body=request.method != b"HEAD")

    async def _response(self, request: h11.Request) -> Response:
        path, _, query = request.target.decode("latin-1").partition("?")
        handler = self._routes.get(path) or _of_paths_above(self._routes, path)
        if handler is None:
            return line(f"not found: there are {', '.join(self._routes)}", HTTPStatus.NOT_FOUND)
        accept = b",".join(value for name, value in request.headers if name == b"accept").decode("latin-1")
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                return await handler(Request(path=path, query=query, accept=accept))
        except TimeoutError:
            return line(f"not answered within {ANSWER_S_MAX:g} s", HTTPStatus.SERVICE_UNAVAILABLE)
        except Exception as error:
            log.error("internal error", path=path, exc_info=error)
            return line("internal error: report it with the node's log", HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _send(self, response: Response, headers: Mapping[str, str], *, has_body: bool = True) -> None:
        every = {
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body) + sum(map(len, response.more))),
            "X-Content-Type-Options": "nosniff",
            **headers,
        }
        reason = HTTPStatus(response.status).phrase
        head = h11.Response(status_code=response.status, headers=list(every.items()), reason=reason)
        ready = self._http.send(head) or b""
        ends_s = self._loop.time() + RESPONSE_S_MAX
        for part in _parts(response) if has_body else ():
            self._transport.write(ready + (self._http.send(h11.Data(data=part)) or b""))
            ready = b""
            self._close_in(min(SEND_S_MAX, ends_s - self._loop.time()))
            await self._may_write.wait()
        self._transport.write(ready + (self._http.send(h11.EndOfMessage()) or b""))

    def _close_in(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(seconds, self._transport.abort)


def _of_paths_above(routes: Routes, path: str) -> Handler | None:
    return next((handler for above, handler in routes.items() if above.endswith("/") and path.startswith(above)), None)


def _parts(response: Response) -> Iterator[bytes]:
    for piece in (response.body, *response.more):
        for start in range(0, len(piece), PART_BYTES_MAX):
            yield piece[start : start + PART_BYTES_MAX]


def _size(request: h11.Request) -> int:
    return len(request.target) + sum(len(name) + len(value) for name, value in request.headers)
