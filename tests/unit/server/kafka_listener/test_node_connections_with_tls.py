"""Nodes on a Kafka listener with TLS: their introduction is bound to the certificate, so that no CA has to be set."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from kraft.rpc.frame_exchange import NotConnected
from kraft.rpc.peers import PeerConnections
from kraft.tls.contexts import ServerContext, introducing_context, server_context
from kraft.tls.dialling import TlsDialling
from kraft.tls.session import TlsBuffers
from kraft.tls.stores import KeyStoreFile, TlsSettings
from tests.support.certificates import Authority
from tests.unit.server.kafka_listener.serving_node import FETCH, HOST, Node, link_to, play, response


def _shown(directory: Path, name: str) -> ServerContext:
    return server_context(TlsSettings(key_store=KeyStoreFile(path=Authority(directory, name).certify(name).keystore)))


def _dialling() -> TlsDialling:
    return TlsDialling(introducing_context(TlsSettings()), TlsBuffers())


@pytest.mark.parametrize("size", [0, 65_536, 3_000_000])
def test_frames_of_any_size_arrive_through_tls(tmp_path: Path, size: int) -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        stream = await link_to(node, connections, tls=_dialling()).connect()
        for number in range(3):
            await stream.send(replace(FETCH, number=number, max_bytes=size))
        assert [await stream.receive() for _ in range(3)] == [response(number, size) for number in range(3)]
        await stream.close()

    assert play(scene, tls=_shown(tmp_path, "node")) == []


def test_somebody_in_between_with_a_certificate_of_its_own_is_noticed_by_both_ends(tmp_path: Path) -> None:
    """It relays every byte between two connections with TLS."""
    between = _shown(tmp_path, "between")

    async def scene(node: Node, connections: PeerConnections) -> None:
        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            context = introducing_context(TlsSettings())
            onward = await asyncio.open_connection(HOST, node.kafka_port, ssl=context)
            copies = (_copy(reader, onward[1]), _copy(onward[0], writer))
            await asyncio.gather(*copies)

        async with await asyncio.start_server(relay, HOST, 0, ssl=between.context) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(NotConnected, match="cluster secret differs"):
                await link_to(node, connections, port, _dialling()).connect()
        # Nobody is in between on the way straight to the node.
        await (await link_to(node, connections, tls=_dialling()).connect()).close()

    assert len(play(scene, tls=_shown(tmp_path, "node"))) == 1


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
    writer.close()


def test_a_node_that_dials_without_tls_is_refused_in_one_line(tmp_path: Path) -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        with pytest.raises(NotConnected):
            await link_to(node, connections).connect()

    (reason,) = play(scene, tls=_shown(tmp_path, "node"))
    assert "the client does not use TLS" in reason


def test_a_node_that_dials_with_tls_where_there_is_none_says_so() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        with pytest.raises(NotConnected, match="during the TLS handshake"):
            await link_to(node, connections, tls=_dialling()).connect()

    (reason,) = play(scene)
    assert "speaks TLS" in reason
