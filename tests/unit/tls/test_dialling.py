"""Both ends over real sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft.tls.contexts import client_context, introducing_context, server_context
from kraft.tls.dialling import TlsDialling, TlsFailed, connect_with_tls
from kraft.tls.handshakes import ServerHandshake
from kraft.tls.session import TlsBuffers
from kraft.tls.stores import KeyStoreFile, TlsSettings, TrustStoreFile
from tests.support.certificates import Authority
from tests.support.tls_wire import Listener, Received, context, settings

pytestmark = pytest.mark.real_time

DEADLINE_S = 30.0


async def _listening(served: list[Received]) -> asyncio.Server:
    listener = Listener()

    def accept(_: object) -> Received:
        served.append(Received())
        return served[-1]

    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: ServerHandshake(listener.handshakes, context, accept), "localhost", 0)


def _with(context: ssl.SSLContext) -> TlsDialling:
    return TlsDialling(context, TlsBuffers())


def _port(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110  The other end is told of nothing.
            await asyncio.sleep(0.001)


async def test_megabytes_go_both_ways() -> None:
    served: list[Received] = []
    data = bytes(range(256)) * 32_768
    async with await _listening(served) as server:
        transport, own = await connect_with_tls(Received, "localhost", _port(server), _with(client_context(settings())))
        transport.write(data)
        await _until(lambda: bool(served) and len(served[0].data) == len(data))
        served[0].transport.write(data)
        await _until(lambda: len(own.data) == len(data))
        assert served[0].data == own.data == data
        transport.close()
        await _until(lambda: bool(own.lost and served[0].lost))
        assert served[0].has_eof


async def test_a_listener_that_is_not_trusted_is_not_connected_to() -> None:
    async with await _listening([]) as server:
        with pytest.raises(TlsFailed, match="its certificate is not accepted"):
            await connect_with_tls(Received, "localhost", _port(server), _with(client_context(TlsSettings())))


async def test_a_certificate_for_another_host_is_not_accepted(tmp_path: Path) -> None:
    other = Authority(tmp_path).certify("node", names="DNS:other.example")
    wanted = TlsSettings(key_store=KeyStoreFile(path=other.keystore), trust_store=TrustStoreFile(path=other.truststore))
    shown, listener = server_context(wanted), Listener()
    loop = asyncio.get_running_loop()

    def make() -> ServerHandshake:
        return ServerHandshake(listener.handshakes, lambda: shown, lambda _: Received())

    async with await loop.create_server(make, "localhost", 0) as server:
        with pytest.raises(TlsFailed, match="Hostname mismatch"):
            await connect_with_tls(Received, "localhost", _port(server), _with(client_context(wanted)))


class _Refusing(asyncio.Protocol):
    """Speaks no TLS."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"220 mail.example ESMTP\r\n")


async def test_what_speaks_no_tls_is_not_connected_to() -> None:
    loop = asyncio.get_running_loop()
    async with await loop.create_server(_Refusing, "localhost", 0) as server:
        with pytest.raises(TlsFailed, match="no TLS record"):
            await connect_with_tls(Received, "localhost", _port(server), _with(introducing_context(settings())))


async def test_a_node_accepts_any_certificate_and_sees_which() -> None:
    async with await _listening([]) as server:
        transport, _ = await connect_with_tls(
            Received, "localhost", _port(server), _with(introducing_context(settings()))
        )
        assert transport.get_extra_info("peer_certificate") == context().certificate
        assert isinstance(transport.get_extra_info("ssl_object"), ssl.SSLObject)
        transport.abort()
