"""Opens connections to listeners of Kafka's protocol: inside TLS, and with a login, as the client's security says."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final

from msgspec import Struct

from kraft.client.kafka.connection import KafkaConnection
from kraft.client.kafka.login import Login
from kraft.client.model.security import ClientSecurity
from kraft.client.model.settings import BY_THE_SYSTEM
from kraft.rpc.connection_failures import UNKNOWN_HOST
from kraft.rpc.peers import HandshakeFailed, UnknownHost, Unreachable
from kraft.tls.contexts import client_context
from kraft.tls.dialling import TlsDialling, TlsFailed, connect_with_tls
from kraft.tls.session import TlsBuffers
from kraft.tls.store_files import StoreError
from kraft.tls.stores import TlsSettings

CONNECT_S_MAX: Final = 10.0
"""Time until a connection is open, and its client logged in."""


class LoggedInConnection:
    """A connection whose client stays logged in."""

    def __init__(self, connection: KafkaConnection, login: Login | None) -> None:
        self.connection = connection
        self._login = login

    async def ready(self) -> KafkaConnection:
        """Return the connection, for the next request. Raises Unreachable, or the Refusal of a login."""
        if self._login is not None:
            await self._login.keep(self.connection)
        return self.connection


class SocketBuffers(Struct, frozen=True, kw_only=True):
    """Sizes of a connection's buffers in the system, in bytes."""

    send_bytes: int = BY_THE_SYSTEM
    receive_bytes: int = BY_THE_SYSTEM

    def set_on(self, connected: socket.socket) -> None:
        for option, size_bytes in ((socket.SO_SNDBUF, self.send_bytes), (socket.SO_RCVBUF, self.receive_bytes)):
            if size_bytes != BY_THE_SYSTEM:
                connected.setsockopt(socket.SOL_SOCKET, option, size_bytes)


class Dialler:
    """Opens the connections of one client."""

    def __init__(self, security: ClientSecurity, software: str, socket_buffers: SocketBuffers) -> None:
        self._security = security
        self._software = software
        self._socket_buffers = socket_buffers
        self._buffers = TlsBuffers()

    async def open(self, address: str, client_id: str) -> LoggedInConnection:
        """Connect, and log in. Raises Unreachable, or the Refusal of the login."""
        connection = KafkaConnection(address, client_id, self._software)
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await self._connect(connection)
                return await self._introduced(connection)
        except TimeoutError:
            raise Unreachable(address, "no answer within the time allowed") from None

    async def _connect(self, connection: KafkaConnection) -> None:
        address = connection.address
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        try:
            if self._security.tls is None:
                loop = asyncio.get_running_loop()
                transport, _ = await loop.create_connection(lambda: connection.frames, host, int(port))
            else:
                tls = TlsDialling(await _context(self._security.tls), self._buffers)
                transport, _ = await connect_with_tls(lambda: connection.frames, host, int(port), tls)
            self._socket_buffers.set_on(transport.get_extra_info("socket"))
        except (TlsFailed, ssl.SSLError, StoreError) as error:
            raise HandshakeFailed(address, str(error)) from error
        except (socket.gaierror, UnicodeError) as error:
            raise UnknownHost(address, UNKNOWN_HOST) from error
        except ConnectionRefusedError as error:
            raise Unreachable(address, "connection refused", nobody_listens=True) from error
        except OSError as error:
            raise Unreachable(address, error.strerror or str(error)) from error

    async def _introduced(self, connection: KafkaConnection) -> LoggedInConnection:
        login = None if self._security.sasl is None else Login(self._security.sasl)
        opened = LoggedInConnection(connection, login)
        try:
            await connection.ask_versions()
            await opened.ready()
        except BaseException:
            connection.close()
            raise
        return opened


async def _context(settings: TlsSettings) -> ssl.SSLContext:
    # Each connection reads the stores, so it uses certificates that were renewed.
    return await asyncio.to_thread(client_context, settings)
