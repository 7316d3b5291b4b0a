from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kraft.local.free_ports import ReservedPorts
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode
from kraft.model.fetch import FetchRequest, FetchResponse
from kraft.model.request_context import RequestContext
from kraft.rpc.calls import FETCH, METADATA, OFFSET_FOR_LEADER_EPOCH
from kraft.rpc.peers import NotGrpc, NotServed, PeerConnections, Unreachable
from kraft.rpc.services import Service
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from kraft.wire.schema.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from tests.support.rpc_servers import public_service, served

pytestmark = pytest.mark.real_time

CALL_S = 5.0
LATE_S = 0.3
"""Longer than the first pause between attempts to connect."""

FETCH_NOTHING = FetchRequest(request_id=1, max_wait_ms=0, min_bytes=0, max_bytes=0, partitions=[])


async def silent(_: object) -> MetadataResponse:
    await asyncio.sleep(600)
    raise AssertionError("nobody waits that long")


@asynccontextmanager
async def waiting_stream() -> AsyncIterator[tuple[Any, asyncio.Task[FetchResponse]]]:
    """A stream whose request is never answered, and the task that waits for the answer. The server stops at the end."""
    begun = asyncio.Event()

    async def begin(request: FetchRequest) -> MetadataResponse:
        begun.set()
        return await silent(request)

    async with served(public_service(fetch=begin)) as (connections, address):
        stream = connections.peer(address).open(FETCH)
        await stream.send(FETCH_NOTHING)
        receiving = asyncio.create_task(stream.receive())
        async with asyncio.timeout(CALL_S):
            await begun.wait()
        assert not receiving.done()
        yield stream, receiving


def test_an_address_where_nobody_listens_is_unreachable_and_named() -> None:
    async def scenario(address: str) -> None:
        connections = PeerConnections()
        try:
            with pytest.raises(Unreachable, match=f"{address} cannot be reached: connection refused"):
                await connections.peer(address).call(METADATA, metadata_of(()), CALL_S)
        finally:
            await connections.close()

    with ReservedPorts(1) as (port,):
        asyncio.run(scenario(f"127.0.0.1:{port}"))


@pytest.mark.parametrize("reads_bytes", [0, 10])
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH\r\n"])
async def test_a_port_of_another_protocol_is_distinguished_from_an_unreachable_one(
    reads_bytes: int, answer: bytes
) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(reads_bytes)
        writer.write(answer)
        writer.close()

    connections = PeerConnections()
    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        with pytest.raises(NotGrpc):
            await connections.peer(address).call(METADATA, metadata_of(()), CALL_S)
    finally:
        await connections.close()
        server.close()


async def test_a_busy_peer_that_is_late_to_begin_the_protocol_is_reached_at_the_first_attempt() -> None:
    async with served(public_service(metadata=known_controller)) as (connections, address):
        attempts = 0

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal attempts
            attempts += 1
            host, port = address.rsplit(":", 1)
            answers, requests = await asyncio.open_connection(host, int(port))
            await asyncio.sleep(LATE_S)
            await asyncio.gather(copied(reader, requests), copied(answers, writer), return_exceptions=True)

        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        late = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        answer = await connections.peer(late).call(METADATA, metadata_of(()), CALL_S)
        server.close()
        assert (answer.controller_id, attempts) == (7, 1)


async def known_controller(_: object) -> MetadataResponse:
    return MetadataResponse(cluster_id="", controller_id=7, brokers=(), topics=())


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(65_536):
        writer.write(part)
        await writer.drain()
    writer.close()


async def test_a_peer_that_does_not_answer_in_time_is_unreachable() -> None:
    async with served(public_service(metadata=silent)) as (connections, address):
        with pytest.raises(Unreachable, match="no answer within the time allowed"):
            await connections.peer(address).call(METADATA, metadata_of(()), 0.05)


async def test_a_task_that_waits_on_a_stream_that_another_task_closes_gets_unreachable_and_is_not_cancelled() -> None:
    async with waiting_stream() as (stream, receiving):
        await stream.close()
        with pytest.raises(Unreachable, match="the stream is closed"):
            await receiving
        with pytest.raises(Unreachable, match="the stream is closed"):
            await stream.receive()
        with pytest.raises(Unreachable, match="the stream is closed"):
            await stream.send(FETCH_NOTHING)


async def test_a_task_that_is_cancelled_while_it_receives_is_cancelled() -> None:
    async with waiting_stream() as (_, receiving):
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving


async def test_a_server_that_stops_ends_the_streams_of_its_clients() -> None:
    async with waiting_stream() as (_, receiving):
        pass
    with pytest.raises(Unreachable):
        await receiving


async def test_a_call_whose_channel_another_task_closes_is_unreachable_and_not_cancelled() -> None:
    begun = asyncio.Event()

    async def begin(request: MetadataRequest) -> MetadataResponse:
        begun.set()
        return await silent(request)

    async with served(public_service(metadata=begin)) as (connections, address):
        calling = asyncio.create_task(connections.peer(address).call(METADATA, metadata_of(()), 60))
        async with asyncio.timeout(CALL_S):
            await begun.wait()
        await connections.close()
        with pytest.raises(Unreachable, match="the connection was closed"):
            await calling


async def test_where_leader_epochs_end_is_asked_and_answered() -> None:
    asked = OffsetForLeaderPartition(partition=3, leader_epoch=4, current_leader_epoch=5)
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="orders", partitions=(asked,)),))
    ends = (
        EpochEndOffset(partition=3, error_code=ErrorCode.NONE, leader_epoch=2, end_offset=70),
        EpochEndOffset(partition=4, error_code=ErrorCode.FENCED_LEADER_EPOCH),
    )
    response = OffsetForLeaderEpochResponse(topics=(OffsetForLeaderTopicResult(topic="orders", partitions=ends),))

    async def handle(asked: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        assert asked == request
        return response

    async with served(public_service(offset_for_leader_epoch=handle)) as (connections, address):
        assert await connections.peer(address).call(OFFSET_FOR_LEADER_EPOCH, request, CALL_S) == response


async def test_a_peer_whose_version_lacks_a_call_is_distinguished_from_an_unreachable_one() -> None:
    async with served() as (connections, address):
        with pytest.raises(NotServed, match="UNIMPLEMENTED"):
            await connections.peer(address).call(
                OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest(topics=()), CALL_S
            )


@pytest.mark.parametrize("client_id", ["", "billing", "Z\u00fcrich\n"])
async def test_a_handler_learns_who_calls(client_id: str) -> None:
    contexts = []

    async def metadata(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
        contexts.append(context)
        return MetadataResponse(cluster_id="c", controller_id=1, brokers=(), topics=())

    async with served(Service(METADATA.served_in_context_by(metadata, 12))) as (connections, address):
        await connections.peer(address, client_id).call(METADATA, metadata_of(()), CALL_S)
    assert [(each.version, each.client_id, each.client_host) for each in contexts] == [(12, client_id, "/127.0.0.1")]
