"""Connections with TLS to others: the handshake of the end that dials."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from kraft.tls.failures import failure
from kraft.tls.records import RECORD_BYTES_MAX, NotTls, record_end
from kraft.tls.session import TlsBuffers, TlsSession
from kraft.tls.transport import TlsTransport

Protocol = TypeVar("Protocol", bound=asyncio.BufferedProtocol)


class TlsFailed(OSError):
    """The handshake failed. The text is one line that says why."""


class TlsDialling(Struct, frozen=True):
    context: ssl.SSLContext
    buffers: TlsBuffers
    """Shared with all other connections of the event loop."""


async def connect_with_tls(
    make_protocol: Callable[[], Protocol], host: str, port: int, tls: TlsDialling
) -> tuple[TlsTransport, Protocol]:
    """Connect, as `create_connection` of the event loop does. Raises OSError; the caller sets the deadline."""
    loop, buffers = asyncio.get_running_loop(), tls.buffers
    session = TlsSession(tls.context, buffers, server_side=False, server_hostname=host)
    _, handshake = await loop.create_connection(lambda: _ClientHandshake(session, buffers), host, port)
    try:
        rest = await handshake.completed
    except BaseException:
        handshake.tcp.abort()
        raise
    protocol = make_protocol()
    transport = TlsTransport(handshake.tcp, session, buffers, protocol, failed=_nothing)
    handshake.tcp.set_protocol(transport)
    protocol.connection_made(transport)
    transport.begin(rest)
    return transport, protocol


class _ClientHandshake(asyncio.BufferedProtocol):
    def __init__(self, session: TlsSession, buffers: TlsBuffers) -> None:
        self._session = session
        self._buffers = buffers
        self._received = b""
        self.completed: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        """Its result is what arrived behind the handshake."""
        self.tcp: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a TCP connection has both directions"
        self.tcp = transport
        self._session.shake(b"")
        transport.write(self._session.outgoing())

    def get_buffer(self, sizehint: int) -> memoryview:
        scratch, received = self._buffers.scratch, self._received
        scratch[: len(received)] = received
        return scratch[len(received) : len(received) + RECORD_BYTES_MAX]

    def buffer_updated(self, nbytes: int) -> None:
        if self.completed.done():
            return
        received = memoryview(bytes(self._buffers.scratch[: len(self._received) + nbytes]))
        begin, is_complete = 0, False
        try:
            while not is_complete and (end := record_end(received, begin)) is not None:
                is_complete = self._session.shake(received[begin:end])
                begin = end
        except (NotTls, ssl.SSLError) as error:
            self.tcp.write(self._session.outgoing())
            self._fail(TlsFailed(failure(error)))
            return
        self._received = bytes(received[begin:])
        self.tcp.write(self._session.outgoing())
        if is_complete:
            self.tcp.pause_reading()
            self.completed.set_result(self._received)

    def eof_received(self) -> bool:
        self._fail(TlsFailed("it closed the connection during the TLS handshake"))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or TlsFailed("the connection was closed during the TLS handshake"))

    def _fail(self, error: Exception) -> None:
        if not self.completed.done():
            self.completed.set_exception(error)


def _nothing(_: str) -> None:
    """The protocol is told when the connection is lost."""
