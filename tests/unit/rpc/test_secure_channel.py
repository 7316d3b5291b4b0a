from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from kraft.metadata.metadata_requests import metadata_of
from kraft.rpc import peers, tls_stores
from kraft.rpc.calls import METADATA
from kraft.rpc.peers import PeerConnections, Unreachable
from kraft.rpc.secure_channel import TlsDial, server_credentials
from kraft.rpc.services import Service
from kraft.tls.stores import KeyStoreFile, TlsSettings, TrustStoreFile
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from tests.support.certificates import Authority, Stores


async def _answer(_: MetadataRequest) -> MetadataResponse:
    return MetadataResponse(cluster_id="", controller_id=1, brokers=(), topics=())


async def _served(stores: Stores) -> tuple[grpc.aio.Server, str]:
    server = grpc.aio.server()
    Service(METADATA.served_by(_answer)).add_to(server)
    credentials = server_credentials(TlsSettings(key_store=KeyStoreFile(path=stores.keystore)))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    return server, f"127.0.0.1:{port}"


async def _ask(connections: PeerConnections, address: str) -> None:
    await connections.peer(address).call(METADATA, metadata_of(()), 5)


def test_both_ends_follow_their_files_and_an_open_channel_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_stores, "LOOK_S", 0.0)
    monkeypatch.setattr(peers, "RETIRED_AFTER_S", 0.1)
    first, second = (Authority(tmp_path, name).certify("node") for name in ("first", "second"))
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(first.truststore.read_bytes())

    async def scene() -> None:
        server, address = await _served(first)
        client = TlsSettings(trust_store=TrustStoreFile(path=trusted))
        renewed, open_ = PeerConnections(TlsDial(client)), PeerConnections(TlsDial(client))
        await _ask(renewed, address)
        held: Any = open_.peer(address)
        await held.call(METADATA, metadata_of(()), 5)
        os.replace(second.keystore, first.keystore)
        stranger = PeerConnections(TlsDial(client))
        with pytest.raises(Unreachable, match="its certificate is not trusted"):
            await _ask(stranger, address)
        await held.call(METADATA, metadata_of(()), 5)
        trusted.write_bytes(second.truststore.read_bytes())
        for connections in (renewed, stranger):
            await _ask(connections, address)
        await asyncio.sleep(0.3)
        for connections in (renewed, stranger, open_):
            await _ask(connections, address)
            await connections.close()
        await server.stop(None)

    async def bounded() -> None:
        async with asyncio.timeout(30):
            await scene()

    asyncio.run(bounded())
