"""A TCP connection in memory, with OpenSSL at its other end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

from kraft.tls.contexts import ServerContext, server_context
from kraft.tls.handshakes import Handshakes, ServerHandshake
from kraft.tls.session import TlsBuffers
from kraft.tls.stores import ClientAuth, KeyStoreFile, TlsSettings, TrustStoreFile
from kraft.tls.transport import TlsTransport
from tests.support.certificates import Authority, Stores

ADDRESS: Final = "10.0.0.7"


@cache
def stores() -> Stores:
    return Authority(Path(mkdtemp(prefix="kraft-tls-"))).certify("node")


@cache
def context(client_auth: ClientAuth = ClientAuth.NONE) -> ServerContext:
    return server_context(settings(client_auth))


def settings(client_auth: ClientAuth = ClientAuth.NONE) -> TlsSettings:
    return TlsSettings(
        key_store=KeyStoreFile(path=stores().keystore),
        trust_store=TrustStoreFile(path=stores().truststore),
        client_auth=client_auth,
    )


def client_context() -> ssl.SSLContext:
    found = ssl.create_default_context(cafile=stores().truststore)
    found.check_hostname = False
    return found


class TcpTransport(asyncio.Transport):
    """Keeps what is written, up to `room` bytes, beyond which its protocol is told to pause."""

    def __init__(self, protocol: asyncio.BufferedProtocol, room: int = 1 << 40, address: str = ADDRESS) -> None:
        super().__init__({"peername": (address, 51_000)})
        self.protocol = protocol
        self.room = room
        self.written = bytearray()
        self.unsent = bytearray()
        self.is_paused = self.is_aborted = self.has_eof = self.is_ended = self.is_lost = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_aborted:
            return
        was_full = bool(self.unsent)
        self.unsent += data
        self._send()
        if self.unsent and not was_full:
            self.protocol.pause_writing()

    def make_room(self, room: int) -> None:
        was_full, self.room = bool(self.unsent), room
        self._send()
        if was_full and not self.unsent and not self.is_lost:
            self.protocol.resume_writing()

    def _send(self) -> None:
        count = min(self.room, len(self.unsent))
        self.written += self.unsent[:count]
        del self.unsent[:count]
        self.room -= count
        if self.is_ended and not self.unsent:
            self._lose(None)

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self.is_aborted or self.is_ended

    def is_reading(self) -> bool:
        return not self.is_paused

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def write_eof(self) -> None:
        self.has_eof = True

    def close(self) -> None:
        if not self.is_closing():
            self.is_ended = True
            if not self.unsent:
                self._lose(None)

    def abort(self) -> None:
        if not self.is_lost:
            self.is_aborted = True
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = True
            asyncio.get_running_loop().call_soon(lambda: self.protocol.connection_lost(error))


class Received(asyncio.BufferedProtocol):
    """What runs on the connection: keeps what it receives, in a buffer of this size."""

    def __init__(self, buffer_bytes: int = 64 * 1024) -> None:
        self._buffer = memoryview(bytearray(buffer_bytes))
        self.data = bytearray()
        self.sizes: list[int] = []
        self.has_eof = self.is_full = False
        self.lost: list[Exception | None] = []
        self.when_received: Callable[[], None] = lambda: None
        self.transport: TlsTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsTransport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self._buffer[:nbytes]
        self.sizes.append(nbytes)
        self.when_received()

    def eof_received(self) -> bool:
        self.has_eof = True
        return False

    def may_write(self) -> bool:
        return not self.is_full

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


@dataclass
class Listener:
    """The server's end: its refusals, and the handshakes of its clients."""

    client_auth: ClientAuth = ClientAuth.NONE
    connections_max: int = 1_000
    refusals: list[tuple[Any, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.buffers = TlsBuffers()
        self.open_names: list[object] = []
        """Of the clients that count as being in their handshakes."""
        self.handshakes = Handshakes(
            self.buffers,
            lambda peer, reason, _: self.refusals.append((peer, reason)),
            self._count,
            self.open_names.remove,
        )

    def _count(self, name: object) -> str | None:
        self.open_names.append(name)
        return "too many connections" if len(self.open_names) > self.connections_max else None

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason in self.refusals]

    def accept(self, protocol: Received | None = None, address: str = ADDRESS) -> tuple[TcpTransport, Received]:
        served = protocol or Received()
        handshake = ServerHandshake(self.handshakes, lambda: context(self.client_auth), lambda _: served)
        tcp = TcpTransport(handshake, address=address)
        handshake.connection_made(tcp)
        return tcp, served


class Client:
    """The other end. It speaks to a transport directly, so a test decides what arrives when."""

    def __init__(self, tcp: TcpTransport, tls: ssl.SSLContext | None = None) -> None:
        self.tcp = tcp
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = (tls or client_context()).wrap_bio(self.incoming, self.outgoing)
        self.has_end = False
        """It has read a close_notify."""

    def shake(self) -> bool:
        """Go on with the handshake as far as possible."""
        self._take()
        try:
            self.ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self.flush()
        return True

    def write(self, data: bytes) -> bytes:
        """Return the records of the data."""
        self.ssl.write(data)
        return self.outgoing.read()

    def read(self) -> bytes:
        self._take()
        found = bytearray()
        while True:
            try:
                data = self.ssl.read(1 << 20)
            except ssl.SSLWantReadError:
                return bytes(found)
            if not data:
                self.has_end = True
                return bytes(found)
            found += data

    def flush(self) -> None:
        arrive(self.tcp, self.outgoing.read())

    def _take(self) -> None:
        self.incoming.write(bytes(self.tcp.written))
        self.tcp.written.clear()


def arrive(tcp: TcpTransport, data: bytes) -> None:
    """Let bytes arrive, in as many parts as the protocol's buffer makes of them. What is not read is lost."""
    while data and not tcp.is_paused and not tcp.is_closing():
        room = memoryview(tcp.protocol.get_buffer(-1))
        count = min(len(room), len(data))
        room[:count] = data[:count]
        data = data[count:]
        tcp.protocol.buffer_updated(count)


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def connected(
    listener: Listener, protocol: Received | None = None, tls: ssl.SSLContext | None = None
) -> tuple[Client, Received]:
    """Return both ends of an open connection."""
    tcp, served = listener.accept(protocol)
    client = Client(tcp, tls)
    for _ in range(4):
        client.shake()
        await turns()
    assert isinstance(tcp.protocol, TlsTransport), listener.refusals
    return client, served
