"""Listener for HTTP, in a thread with an event loop of its own: it answers while the node's loop is busy or hangs.

Handlers run in that thread. What they need of the node they ask of its loop, or read where one thread may read what
another writes.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from concurrent.futures import Future
from typing import Final

import structlog

from kraft.server.config.values import Listener
from kraft.server.http.connection import HttpConnection
from kraft.server.http.messages import Routes

log = structlog.get_logger()

CONNECTIONS_MAX: Final = 32
STOP_S_MAX: Final = 1.0


def why_not_bound(error: OSError) -> str:
    """Return why an address could not be bound, with the remedy where it is certain."""
    if error.errno == errno.EADDRINUSE:
        return "another process listens there, perhaps one with this file: give each process of a machine its own port"
    # The event loop says where as Python writes a tuple.
    return (error.strerror or str(error)).partition(" (while")[0].rpartition("): ")[2]


class HttpListener:
    """Serves `routes` at one address."""

    def __init__(self, address: Listener, routes: Routes) -> None:
        self.address = address
        self._routes = routes
        self._connections: dict[HttpConnection, None] = {}
        """The one that opened first is first."""
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event
        self._none_left: asyncio.Event

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def start(self) -> None:
        """Listen. Raises OSError if the address cannot be bound."""
        listening: Future[None] = Future()
        # A daemon: a thread of scrapes never keeps a process that has to end.
        self._thread = threading.Thread(target=self._run, args=(listening,), name="http", daemon=True)
        self._thread.start()
        await asyncio.wrap_future(listening)
        log.info("listener started", listener=str(self.address))

    def _run(self, listening: Future[None]) -> None:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(self._serve(listening))

    async def _serve(self, listening: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop, self._none_left = asyncio.Event(), asyncio.Event()
        address = self.address
        try:
            server = await self._loop.create_server(
                lambda: HttpConnection(self, self._routes), address.host or None, address.port
            )
        except OSError as error:
            listening.set_exception(error)
            return
        listening.set_result(None)
        await self._stop.wait()
        server.close()
        self._none_left.clear()
        for connection in list(self._connections):
            connection.abort()
        if self._connections:
            await self._none_left.wait()

    async def stop(self) -> None:
        """Close all connections, and wait for the end of the thread."""
        self.close()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, STOP_S_MAX)

    def close(self) -> None:
        """Close all connections soon."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)

    # --- called by connections -----------------------------------------------------------------------------------

    def opened(self, connection: HttpConnection) -> None:
        self._connections[connection] = None
        if len(self._connections) <= CONNECTIONS_MAX:
            return
        # One that waits for a request goes first. If all others are being answered, the oldest one goes: those that
        # read slowly must not keep a probe away, for which this node would be ended.
        others = [each for each in self._connections if each is not connection]
        leaving = next((each for each in others if not each.is_answering), others[0])
        del self._connections[leaving]
        leaving.abort()

    def closed(self, connection: HttpConnection) -> None:
        self._connections.pop(connection, None)
        if not self._connections:
            self._none_left.set()
