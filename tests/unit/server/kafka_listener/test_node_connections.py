"""Nodes on the Kafka listener: they introduce themselves, and then exchange frames of their own."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from kraft.local.free_ports import ReservedPorts
from kraft.model.endpoint import Endpoint
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.rpc.frame_connection import UNACKNOWLEDGED_MS_MAX
from kraft.rpc.frame_exchange import HELLO_BYTES_MAX, ExchangeLink, NotConnected, admitting, hello
from kraft.rpc.peers import PeerConnections, Unreachable
from tests.support.server.replicas import until
from tests.unit.server.kafka_listener.serving_node import (
    DEADLINE_S,
    FETCH,
    HOST,
    OTHERS,
    SECRETS,
    Link,
    Node,
    Stream,
    dial_as,
    link_to,
    play,
    response,
    socket_of,
)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0.001)


# --- exchanges ---------------------------------------------------------------------------------------------------


def test_a_node_that_introduced_itself_exchanges_frames_in_any_order() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        node.held_back.add(1)
        stream = await link_to(node, connections).connect()
        for number in (1, 2, 3):
            await stream.send(replace(FETCH, number=number))
        assert [(await stream.receive()).number for _ in range(2)] == [2, 3]
        node.is_open.set()
        assert await stream.receive() == response(1)
        await stream.close()

    assert play(scene) == []


@pytest.mark.parametrize("size", [0, 1, 65_000, 65_536, 131_000, 140_000, 3_000_000])
def test_frames_of_any_size_arrive_as_they_were_sent(size: int) -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        stream = await link_to(node, connections).connect()
        for number in range(1, 6):
            await stream.send(replace(FETCH, number=number, max_bytes=size))
        for number in range(1, 6):
            assert await stream.receive() == response(number, size)
        await stream.close()

    assert play(scene) == []


def test_an_exchange_over_grpc_is_answered_as_one_over_a_connection() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        link = link_to(node, connections)
        answers = []
        for stream in (await link.connect(), link.over_grpc()):
            for number, size in ((1, 0), (2, 70_000), (3, 2_000_000)):
                await stream.send(replace(FETCH, number=number, max_bytes=size))
            answers.append([await stream.receive() for _ in range(3)])
            await stream.close()
        assert answers[0] == answers[1]

    assert play(scene) == []


def test_a_peer_that_reads_nothing_has_one_response_made_for_it_beyond_what_its_connection_holds() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        stream = await link_to(node, connections).connect()
        await fill(node, stream)
        assert len(node.made) < 60
        assert [(await stream.receive()).number for _ in range(100)] == list(range(1, 101))
        await stream.close()

    assert play(scene) == []


def test_a_response_that_cannot_be_made_ends_the_connection_that_has_room_for_it() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        stream = await link_to(node, connections).connect()
        await fill(node, stream)
        node.fails = True
        with pytest.raises(Unreachable):
            await receive_all(stream)

    assert play(scene) == []


async def receive_all(stream: Stream) -> None:
    while True:
        await stream.receive()


async def fill(node: Node, stream: Stream) -> None:
    """Send requests for more than the connection holds, and wait until no further response is made."""
    for number in range(1, 101):
        await stream.send(replace(FETCH, number=number, max_bytes=1_000_000))
    await settle()
    while (before := len(node.made)) and before < 100:
        await asyncio.sleep(0.05)
        if len(node.made) == before:
            break


def test_an_exchange_ends_with_its_node() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        node.held_back.add(1)
        stream = await link_to(node, connections).connect()
        await stream.send(FETCH)
        await settle()
        assert node.frames is not None
        node.frames.close()
        with pytest.raises(Unreachable, match=r"closed|reset"):
            await stream.receive()
        with pytest.raises(Unreachable):
            await stream.send(FETCH)
        with pytest.raises(NotConnected):
            await link_to(node, connections).connect()

    play(scene)


def test_both_ends_of_a_connection_notice_a_peer_that_vanishes() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        stream = await link_to(node, connections).connect()
        (served,) = node.node_sockets()
        for end in (socket_of(stream.connection), served):
            assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == UNACKNOWLEDGED_MS_MAX
        await stream.close()

    assert play(scene) == []


def test_a_connection_of_a_node_takes_no_place_of_a_kafka_client() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        streams = [await link_to(node, connections).connect() for _ in range(3)]
        assert node.kafka_connections() == 0
        _, writer = await asyncio.open_connection(HOST, node.kafka_port)
        await until(lambda: node.kafka_connections() == 1)
        for stream in streams:
            await stream.close()
        await until(lambda: not node.node_sockets())
        assert node.kafka_connections() == 1
        writer.close()
        await until(lambda: node.kafka_connections() == 0)

    assert play(scene, connections_max=1) == []


# --- introductions -----------------------------------------------------------------------------------------------


def test_a_node_of_another_cluster_is_refused_in_one_line() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        stranger = dial_as(OTHERS)
        with pytest.raises(NotConnected, match="cluster secret differs"):
            await link_to(node, stranger).connect()
        await stranger.close()

    (reason,) = play(scene)
    assert reason.startswith("its cluster secret differs")


def test_no_connection_is_made_over_a_channel_that_is_closed() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        link = link_to(node, connections)
        await connections.close()
        with pytest.raises(NotConnected, match="the channel is closed"):
            await link.connect()

    assert play(scene) == []


def test_without_introductions_there_are_no_connections() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        nobody = dial_as(None)
        with pytest.raises(NotConnected, match="do not introduce themselves"):
            await link_to(node, nobody).connect()
        await nobody.close()

    assert play(scene) == []


async def answer_to(port: int, frame: bytes) -> bytes:
    """Send bytes as the first frame; return what comes back until the connection is closed or answered."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(len(frame).to_bytes(4, "big") + frame)
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        return b""
    finally:
        writer.close()


async def header_for(node: Node, connections: PeerConnections, method: str) -> str:
    channel: Any = connections.peer(f"{HOST}:{node.grpc_port}").channel
    header: str = (await channel.introduce(method, bytes(32))).header
    return header


def test_a_recorded_introduction_and_one_for_a_call_over_grpc_are_refused() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        said = hello(bytes(32), await header_for(node, connections, f"{REPLICA_FETCH.method} over a connection"))
        assert (await answer_to(node.kafka_port, said))[4:5] == b"\x01"
        assert b"the call was repeated" in await answer_to(node.kafka_port, said)
        for_a_call = hello(bytes(32), await header_for(node, connections, REPLICA_FETCH.method))
        assert b"cluster secret differs" in await answer_to(node.kafka_port, for_a_call)

    assert len(play(scene)) == 2


def test_bytes_that_introduce_nobody_close_the_connection() -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        good = hello(bytes(32), await header_for(node, connections, f"{REPLICA_FETCH.method} over a connection"))
        for bad in (good[:20], good[:2] + b"\x00\x09" + good[4:]):
            assert await answer_to(node.kafka_port, bad) == b""
        assert (await answer_to(node.kafka_port, good[:60]))[4:5] == b"\x00"
        assert await answer_to(node.kafka_port, good + b" " * HELLO_BYTES_MAX) == b""
        reader, writer = await asyncio.open_connection(HOST, node.kafka_port)
        writer.write(len(good).to_bytes(4, "big") + good + b"more")
        assert await reader.read() == b""
        writer.close()

    reasons = play(scene)
    assert "its introduction is cut off" in reasons
    assert any(reason.startswith("version 9 of introductions") for reason in reasons)
    assert any(reason.endswith(f"bytes is larger than {HELLO_BYTES_MAX}") for reason in reasons)
    assert any("only at its first request" in reason for reason in reasons)


async def connected_again(link: Link) -> Stream:
    """Connect to a restarted node, which gRPC takes a moment to reach."""
    while True:
        try:
            return await link.connect()
        except NotConnected:
            await asyncio.sleep(0.1)


def test_a_session_of_another_process_is_not_admitted_and_one_of_an_earlier_process_is_renewed() -> None:
    async def run(ports: list[int]) -> None:
        node, other, connections = Node(ports[0], ports[1]), Node(ports[2], ports[3]), dial_as(SECRETS)
        async with asyncio.timeout(DEADLINE_S):
            async with node.serving(), other.serving():
                await (await link_to(node, connections).connect()).close()
                with pytest.raises(NotConnected, match="its session is of an earlier process"):
                    await link_to(node, connections, other.kafka_port).connect()
                await until(lambda: other.kafka_connections() == 0)
                await (await link_to(node, connections).connect()).close()
            async with node.serving():
                stream = await connected_again(link_to(node, connections))
                await stream.send(FETCH)
                assert await stream.receive() == response(1)
                await stream.close()
            await connections.close()

    with ReservedPorts(4) as ports:
        asyncio.run(run(list(ports)))


def test_a_listener_that_does_not_know_the_secret_is_not_taken_for_the_node() -> None:
    left = asyncio.Event()

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        answer = admitting(bytes(32))
        writer.write(len(answer).to_bytes(4, "big") + answer)
        await until_closed(reader)
        left.set()

    async def scene(node: Node, connections: PeerConnections) -> None:
        server = await asyncio.start_server(impostor, HOST, 0)
        with pytest.raises(NotConnected, match="it does not know the secret"):
            await link_to(node, connections, server.sockets[0].getsockname()[1]).connect()
        await left.wait()
        server.close()

    assert play(scene) == []


async def until_closed(reader: asyncio.StreamReader) -> None:
    """Read until the other end has closed the connection."""
    with suppress(ConnectionError):
        await reader.read()


def test_a_listener_that_says_nothing_or_is_not_there_is_given_up_in_time() -> None:
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await until_closed(reader)
        left.set()

    async def scene(node: Node, connections: PeerConnections) -> None:
        server = await asyncio.start_server(silent, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotConnected, match="did not answer in time"):
            await link_to(node, connections, port).connect()
        await left.wait()
        server.close()
        await server.wait_closed()
        with pytest.raises(NotConnected):
            await link_to(node, connections, port).connect()

    assert play(scene) == []


@pytest.mark.parametrize("host", ["a..b", "", "no such host", "x" * 64 + ".example"])
def test_a_host_that_is_none_cannot_be_connected_to(host: str) -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        endpoint = Endpoint(listener="PLAINTEXT", host=host, port=node.kafka_port)
        link = ExchangeLink(connections.peer(f"{HOST}:{node.grpc_port}"), endpoint, REPLICA_FETCH)
        with pytest.raises(NotConnected):
            await link.connect()

    assert play(scene) == []


# --- bad frames --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [b"\x00\x00\x00\x03bad", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00"], ids=["no request", "too large", "empty"]
)
def test_a_frame_that_is_no_request_ends_its_connection_alone(sent: bytes) -> None:
    async def scene(node: Node, connections: PeerConnections) -> None:
        good, bad = [await link_to(node, connections).connect() for _ in range(2)]
        bad.connection._transport.write(sent)
        with pytest.raises(Unreachable):
            await bad.receive()
        await good.send(FETCH)
        assert await good.receive() == response(1)
        await good.close()

    for reason in play(scene):
        assert "not a valid request" in reason
