from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import grpc.aio
import pytest

from kraft.model.principal import ANONYMOUS, Principal
from kraft.rpc.calls import METADATA
from kraft.rpc.client_gate import CALLER, Caller
from kraft.rpc.gatekeeper import Gatekeeper, KnownNodes
from kraft.rpc.introduced_channel import IntroducedChannel
from kraft.rpc.introductions import ClusterSecrets
from kraft.rpc.on_behalf import FORWARDED_FOR, ON_BEHALF_OF, Client, client_in, forwarded_for
from kraft.rpc.peers import PeerConnections, Unreachable
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.services import Service
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse

pytestmark = pytest.mark.real_time

SECRETS: Final = ClusterSecrets([b"the secret of the cluster"])
ALICE: Final = Client(Principal("älice", "User"), "10.0.0.7")
ANYTHING: Final = MetadataRequest(topics=())


class Node:
    """Serves a call, and notes who made it and for whom."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.clients: list[Client | None] = []

    async def metadata(self, _: MetadataRequest) -> MetadataResponse:
        self.callers.append(CALLER.get())
        self.clients.append(ON_BEHALF_OF.get())
        return MetadataResponse(brokers=(), topics=())

    @asynccontextmanager
    async def serving(self, known_nodes: KnownNodes, *, is_guarded: bool) -> AsyncIterator[str]:
        gatekeeper = Gatekeeper(
            cluster_id="cluster",
            cluster_secrets=SECRETS,
            is_guarded=lambda _: is_guarded,
            message_bytes_max=None,
            refusals=RefusalLog(lambda: 0),
            listener="LISTENER",
            known_nodes=known_nodes,
        )
        server = grpc.aio.server(interceptors=[gatekeeper])
        for service in (gatekeeper, Service(METADATA.served_by(self.metadata))):
            service.add_to(server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)


async def call(address: str, *, introduced: bool) -> None:
    def dial(address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(address, options=options)
        return IntroducedChannel(channel, SECRETS, "cluster", 7) if introduced else channel

    connections = PeerConnections(dial)
    try:
        await connections.peer(address).call(METADATA, ANYTHING, 5)
    finally:
        await connections.close()


async def test_a_node_says_for_whom_it_forwards_and_for_itself_nothing() -> None:
    node = Node()
    async with node.serving(KnownNodes.EVERY_CALLER, is_guarded=True) as address:
        await call(address, introduced=True)
        token = ON_BEHALF_OF.set(ALICE)
        await call(address, introduced=True)
        ON_BEHALF_OF.reset(token)
        await call(address, introduced=True)
    assert node.clients == [None, ALICE, None]
    assert {each.principal for each in node.callers} == {Principal("7", "Node")}


async def test_nobody_speaks_for_another_at_a_listener_of_clients() -> None:
    node = Node()
    token = ON_BEHALF_OF.set(ALICE)
    async with node.serving(KnownNodes.IF_INTRODUCED, is_guarded=False) as address:
        await call(address, introduced=False)
        await call(address, introduced=True)
    ON_BEHALF_OF.reset(token)
    assert node.clients == [None, None]
    assert [(each.principal, each.is_node) for each in node.callers] == [
        (ANONYMOUS, False),
        (Principal("7", "Node"), True),
    ]
    assert {(each.listener, each.peer.rpartition(":")[0]) for each in node.callers} == {("LISTENER", "127.0.0.1")}


async def test_a_node_is_not_known_where_nothing_is_asked_about_clients() -> None:
    node = Node()
    async with node.serving(KnownNodes.WHERE_NEEDED, is_guarded=False) as address:
        await call(address, introduced=True)
    assert [each.principal for each in node.callers] == [ANONYMOUS]


@pytest.mark.parametrize("value", [b"", b"\xc1", b"\x90", forwarded_for])
async def test_a_call_for_something_that_is_no_client_is_refused(value: Any) -> None:
    if callable(value):
        assert value() == ()
        return
    with pytest.raises(ValueError, match="it names no client"):
        client_in([("other", "x"), (FORWARDED_FOR, value)])
    node = Node()
    async with node.serving(KnownNodes.EVERY_CALLER, is_guarded=False) as address:
        channel = grpc.aio.insecure_channel(address)
        method = channel.unary_unary(METADATA.method, METADATA.request.serialize, METADATA.response.parse)
        with pytest.raises(grpc.aio.AioRpcError):
            await method(METADATA.request.to_message(ANYTHING), metadata=((FORWARDED_FOR, value),), timeout=30)
        await channel.close()
    assert not node.clients


async def test_a_stranger_is_refused_whomever_it_names() -> None:
    token = ON_BEHALF_OF.set(ALICE)
    async with Node().serving(KnownNodes.EVERY_CALLER, is_guarded=True) as address:
        with pytest.raises(Unreachable):
            await call(address, introduced=False)
    ON_BEHALF_OF.reset(token)
