"""Connections by Kafka's protocol, to a broker that is a script: what is sent when, and what each failure becomes."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest

from kraft.client.cluster.network import Network
from kraft.client.kafka.connections import CONNECTIONS_MAX, KafkaConnections
from kraft.client.kafka.dialling import SocketBuffers
from kraft.client.model.security import OPEN
from kraft.client.model.settings import ProducerSettings, settings_of
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import FetchPartition, FetchRequest
from kraft.model.produce import ACKS_NONE, ProducePartition, ProduceRequest
from kraft.rpc.calls import FENCE_BROKER, FETCH, METADATA, PRODUCE
from kraft.rpc.peers import NotKafka, UnknownHost, Unreachable
from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.api_versions import advertised
from kraft.wire.codec import decode
from kraft.wire.declaration import Message
from kraft.wire.frame import decode_request_header, encode_response
from kraft.wire.schema.api_versions import ApiVersionsResponse
from kraft.wire.schema.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.wire.schema.metadata import MetadataResponse
from kraft.wire.schema.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

pytestmark = pytest.mark.real_time

NOTHING = MetadataResponse(brokers=(), topics=())
ADMIN_S = 5.0
RECORDS = build_batch([Record(0, 1_000, None, b"abc")])

Answer = Callable[[Message], Awaitable[Message | bytes | None]]
"""Returns the response, the bytes to send in its place, or None to say nothing."""


class Broker:
    """Answers each connection's requests in their order."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.connections = 0
        self.requests: list[Message] = []
        self.address = ""
        self._arrived = asyncio.Condition()
        self.ended = 0
        self.tells_versions = asyncio.Event()
        """Set while the first request of a connection is answered."""
        self.tells_versions.set()

    async def have_arrived(self, count: int) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)

    async def have_connected(self, count: int) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.connections >= count)

    async def have_ended(self, count: int) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: self.ended >= count)

    async def _note(self) -> None:
        async with self._arrived:
            self._arrived.notify_all()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await self._note()
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header, position = decode_request_header(frame)
                request = decode(request_type(header.api_key), header.api_version, frame, position)
                if header.api_key == ApiKey.API_VERSIONS:
                    await self.tells_versions.wait()
                    response: Message | bytes | None = ApiVersionsResponse(error_code=0, api_keys=advertised(ApiKey))
                else:
                    self.requests.append(request)
                    await self._note()
                    response = await self._answer(request)
                if isinstance(response, Message):
                    response = b"".join(encode_response(response, header.api_version, header.correlation_id))
                writer.write(response or b"")
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()
            self.ended += 1
            await self._note()


@asynccontextmanager
async def broker(answer: Answer) -> AsyncIterator[tuple[Broker, KafkaConnections]]:
    running = Broker(answer)
    server = await asyncio.start_server(running.serve, "127.0.0.1", 0)
    running.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    connections = KafkaConnections(OPEN, _unexplained, "tests", SocketBuffers())
    try:
        yield running, connections
    finally:
        await connections.close()
        server.close()


async def _unexplained(_: str, error: Refusal | Unreachable) -> Refusal | Unreachable:
    return error


async def nothing(_: Message) -> Message:
    return NOTHING


async def never(_: Message) -> None:
    await asyncio.Event().wait()


async def test_buffers_of_sockets_have_the_sizes_of_the_settings() -> None:
    sizes = {"send.buffer.bytes": "70000", "receive.buffer.bytes": "90000"}
    async with broker(nothing) as (running, _):
        settings = settings_of(ProducerSettings, running.address, {"wire.protocol": "kafka", **sizes})
        connections = Network().connect(settings)
        try:
            assert await connections.peer(running.address).call(METADATA, metadata_of(None), ADMIN_S) == NOTHING
            port = int(running.address.rpartition(":")[2])
            open_here = psutil.Process().net_connections("tcp4")
            (at,) = (each.fd for each in open_here if getattr(each.raddr, "port", 0) == port)
            with socket.socket(fileno=os.dup(at)) as connected:
                found = [connected.getsockopt(socket.SOL_SOCKET, each) for each in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
        finally:
            await connections.close()
    # Linux says twice what was asked for: the other half is for its own notes (socket(7)).
    assert found == [2 * 70_000, 2 * 90_000]


async def test_calls_follow_each_other_on_one_connection() -> None:
    async with broker(nothing) as (running, connections):
        for _ in range(3):
            assert await connections.peer(running.address).call(METADATA, metadata_of(None), ADMIN_S) == NOTHING
        assert running.connections == 1


async def test_a_request_that_cannot_be_sent_leaves_its_connection_in_order() -> None:
    async with broker(nothing) as (running, connections):
        peer = connections.peer(running.address)
        await peer.call(METADATA, metadata_of(None), ADMIN_S)
        with pytest.raises(Refusal, match="is not valid Unicode"):
            await peer.call(METADATA, metadata_of(["\udcff"]), ADMIN_S)
        assert await peer.call(METADATA, metadata_of(None), ADMIN_S) == NOTHING


async def test_calls_at_the_same_time_do_not_wait_for_each_other_on_a_bounded_number_of_connections() -> None:
    may_answer = asyncio.Event()

    async def wait(request: Message) -> Message:
        await may_answer.wait()
        return NOTHING

    async with broker(wait) as (running, connections):
        peer = connections.peer(running.address)
        calls = [
            asyncio.ensure_future(peer.call(METADATA, metadata_of(None), ADMIN_S)) for _ in range(2 * CONNECTIONS_MAX)
        ]
        await running.have_arrived(CONNECTIONS_MAX)
        may_answer.set()
        assert await asyncio.gather(*calls) == [NOTHING] * len(calls)
        assert running.connections == CONNECTIONS_MAX


async def test_a_call_without_an_answer_ends_in_time_and_its_connection_with_it() -> None:
    answers: list[Answer] = [never, nothing]

    async def answer(request: Message) -> Any:
        return await answers.pop(0)(request)

    async with broker(answer) as (running, connections):
        peer = connections.peer(running.address)
        with pytest.raises(Unreachable, match="no answer within the time allowed"):
            await peer.call(METADATA, metadata_of(None), 0.1)
        # The late answer would be taken for that of the next request.
        assert await peer.call(METADATA, metadata_of(None), ADMIN_S) == NOTHING
        assert running.connections == 2


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"".join(encode_response(NOTHING, 13, 99)), "it sent response 99, expected 2"),
        (b"\x00\x00\x00\x05\x00\x00\x00\x02\x00", "its response is not valid"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "larger than"),
    ],
)
async def test_a_response_that_is_none_ends_the_connection(sent: bytes, reason: str) -> None:
    async def answer(_: Message) -> bytes:
        return sent

    async with broker(answer) as (running, connections):
        with pytest.raises(Unreachable, match=reason):
            await connections.peer(running.address).call(METADATA, metadata_of(None), ADMIN_S)


@pytest.mark.parametrize("is_ours", [True, False])
async def test_a_listener_that_closes_at_the_first_request_may_require_a_login(is_ours: bool) -> None:
    async def close(_: Message) -> None:
        raise ConnectionError

    async with broker(never if is_ours else close) as (running, connections):
        calling = asyncio.ensure_future(connections.peer(running.address).call(METADATA, metadata_of(None), ADMIN_S))
        await running.have_arrived(1)
        if is_ours:
            await connections.close()
        with pytest.raises(Unreachable) as error:
            await calling
    assert ("it may require a login" in str(error.value)) is not is_ours


async def test_a_response_that_is_only_an_error_is_raised() -> None:
    async def refuse(_: Message) -> Message:
        return MetadataResponse(brokers=(), topics=(), error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async with broker(refuse) as (running, connections):
        with pytest.raises(Refusal) as refused:
            await connections.peer(running.address).call(METADATA, metadata_of(None), ADMIN_S)
        assert refused.value.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_call_that_kafka_does_not_have_is_refused_without_asking() -> None:
    from kraft.model.brokers import FenceBrokerRequest

    async with broker(nothing) as (running, connections):
        with pytest.raises(Refusal, match="Kafka's protocol has no FenceBroker"):
            await connections.peer(running.address).call(
                FENCE_BROKER, FenceBrokerRequest(broker_id=1, timeout_ms=1), ADMIN_S
            )
        assert running.connections == 0


async def test_an_address_where_nobody_listens_and_an_unknown_host_are_told_apart() -> None:
    connections = KafkaConnections(OPEN, _unexplained, "tests", SocketBuffers())
    with pytest.raises(Unreachable, match="connection refused") as refused:
        await connections.peer("127.0.0.1:1").call(METADATA, metadata_of(None), ADMIN_S)
    assert refused.value.nobody_listens
    with pytest.raises(UnknownHost):
        await connections.peer("no.such.host.invalid:9092").call(METADATA, metadata_of(None), ADMIN_S)


async def test_a_listener_that_closes_before_it_told_its_versions_may_speak_another_protocol() -> None:
    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    connections = KafkaConnections(OPEN, _unexplained, "tests", SocketBuffers())
    with pytest.raises(NotKafka):
        await connections.peer(f"127.0.0.1:{server.sockets[0].getsockname()[1]}").call(
            METADATA, metadata_of(None), ADMIN_S
        )
    server.close()


# --- streams ---------------------------------------------------------------------------------------------------


def produce(request_id: int, *places: tuple[str, int], acks: int = 1) -> ProduceRequest:
    partitions = [ProducePartition(topic=topic, partition=number, records=b"r") for topic, number in places]
    return ProduceRequest(request_id=request_id, acks=acks, timeout_ms=1_000, partitions=partitions)


async def produced(request: Message) -> Message:
    """Answer the partitions of each topic in the opposite order."""
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=topic.name,
                partition_responses=tuple(
                    PartitionProduceResponse(index=each.index, error_code=0, base_offset=each.index)
                    for each in reversed(topic.partition_data)
                ),
            )
            for topic in request.topic_data  # type: ignore[attr-defined]  # It is a produce request.
        )
    )


async def test_produce_requests_are_sent_ahead_and_answered_in_the_order_of_their_partitions() -> None:
    async with broker(produced) as (running, connections):
        stream = connections.peer(running.address).open(PRODUCE)
        await stream.send(produce(1, ("b", 1), ("a", 7), ("b", 0)))
        await stream.send(produce(2, ("c", 3)))
        first, second = await stream.receive(), await stream.receive()
        assert [(each.topic, each.partition) for each in first.partitions] == [("b", 1), ("a", 7), ("b", 0)]
        assert ([first.request_id, second.request_id], running.connections) == ([1, 2], 1)
        await stream.close()
        with pytest.raises(Unreachable, match="the stream is closed"):
            await stream.receive()


async def test_a_produce_response_that_lacks_a_partition_ends_the_stream() -> None:
    async def empty(_: Message) -> Message:
        return ProduceResponse(responses=())

    async with broker(empty) as (running, connections):
        stream = connections.peer(running.address).open(PRODUCE)
        await stream.send(produce(1, ("a", 0)))
        with pytest.raises(Unreachable, match="its response lacks a-0"):
            await stream.receive()
        with pytest.raises(Unreachable):
            await stream.send(produce(2, ("a", 0)))


async def test_a_stream_without_acknowledgements_finishes_when_the_broker_has_read_all() -> None:
    async def say_nothing(_: Message) -> None:
        return None

    async with broker(say_nothing) as (running, connections):
        stream = connections.peer(running.address).open(PRODUCE)
        for number in range(100):
            await stream.send(produce(number, ("a", 0), acks=ACKS_NONE))
        await stream.finish()
        assert len(running.requests) == 100
        with pytest.raises(Unreachable, match="the stream is finished"):
            await stream.receive()


async def test_a_wait_for_a_response_may_be_given_up_and_begun_again() -> None:
    may_answer = asyncio.Event()

    async def fetched(_: Message) -> Message:
        await may_answer.wait()
        found = PartitionData(
            partition_index=0, error_code=0, high_watermark=9, aborted_transactions=None, records=RECORDS
        )
        return FetchResponse(responses=(FetchableTopicResponse(topic="a", partitions=(found,)),))

    async with broker(fetched) as (running, connections):
        stream = connections.peer(running.address).open(FETCH)
        place = FetchPartition(topic="a", partition=0, fetch_offset=0, partition_max_bytes=100)
        await stream.send(FetchRequest(request_id=7, max_wait_ms=1, min_bytes=1, max_bytes=9, partitions=[place]))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.receive(), 0.05)
        may_answer.set()
        response = await stream.receive()
        assert (response.request_id, response.partitions[0].records) == (7, RECORDS)


async def test_a_connection_that_breaks_ends_the_stream_for_both_tasks() -> None:
    async with broker(never) as (running, connections):
        stream = connections.peer(running.address).open(PRODUCE)
        await stream.send(produce(1, ("a", 0)))
        receiving = asyncio.ensure_future(stream.receive())
        # It begins to wait.
        await asyncio.sleep(0)
        await connections.close()
        with pytest.raises(Unreachable):
            await receiving
        with pytest.raises(Unreachable):
            await stream.send(produce(2, ("a", 0)))


async def test_what_is_dialled_while_the_client_closes_is_closed_too() -> None:
    async with broker(nothing) as (running, connections):
        running.tells_versions.clear()
        stream = connections.peer(running.address).open(PRODUCE)
        sending = asyncio.ensure_future(stream.send(produce(1, ("a", 0))))
        calling = asyncio.ensure_future(connections.peer(running.address).call(METADATA, metadata_of(None), ADMIN_S))
        await running.have_connected(2)
        await stream.close()
        await connections.close()
        running.tells_versions.set()
        with pytest.raises(Unreachable, match="is closed"):
            await sending
        with pytest.raises(Unreachable, match="the client is closed"):
            await calling
        # Both ends know: the broker reads the end of each connection.
        await running.have_ended(2)
