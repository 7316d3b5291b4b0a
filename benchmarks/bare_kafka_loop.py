"""Upper bound for a broker of Kafka's protocol in Python: discards records and answers from memory.

A produce request is acknowledged without being looked at; a fetch is answered with the last batch that came, whose
offsets alone are put right. Every topic exists, with one partition. `python -m benchmarks.bare_kafka_loop` prints its
port, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final
from uuid import UUID

from kraft.runtime.allocator import keep_freed_memory
from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.codec import decode
from kraft.wire.declaration import Buffer, Message
from kraft.wire.frame import RequestHeader, decode_request_header, encode_response
from kraft.wire.schema.api_versions import ApiVersion, ApiVersionsResponse
from kraft.wire.schema.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kraft.wire.schema.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.wire.schema.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse

HOST: Final = "127.0.0.1"

_VERSIONS: Final = {
    ApiKey.PRODUCE: (0, 9),
    ApiKey.FETCH: (4, 11),
    ApiKey.METADATA: (0, 12),
    ApiKey.API_VERSIONS: (0, 3),
}
"""librdkafka asks for record batches only of who has these."""

_ROOM_BYTES: Final = 4 << 20
_BASE_OFFSET_BYTES: Final = 8
_END: Final = 1 << 40
"""Log end offset that the one partition reports: no reader gets there."""


class BareLoop(asyncio.BufferedProtocol):
    batch = b""
    """The last that came on any connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._room = bytearray(_ROOM_BYTES)
        self._filled = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a TCP connection has both directions"
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._room)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        view, position = memoryview(self._room), 0
        while self._filled - position >= 4:
            end = position + 4 + int.from_bytes(view[position : position + 4], "big")
            if end > self._filled:
                break
            for piece in self._answer(view[position + 4 : end]):
                self._transport.write(piece)
            position = end
        self._room[: self._filled - position] = self._room[position : self._filled]
        self._filled -= position

    def _answer(self, frame: memoryview) -> list[Buffer]:
        header, position = decode_request_header(frame)
        request = decode(request_type(header.api_key), header.api_version, frame, position)
        return encode_response(self._respond(request, header), header.api_version, header.correlation_id)

    def _respond(self, request: Message, header: RequestHeader) -> Message:
        match request:
            case ProduceRequest():
                return _acknowledged(request)
            case FetchRequest():
                return _fetched(request)
            case MetadataRequest():
                return self._metadata(request)
            case _:
                keys = tuple(
                    ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in _VERSIONS.items()
                )
                return ApiVersionsResponse(error_code=0, api_keys=keys)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        partition = MetadataResponsePartition(
            error_code=0, partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=(1,), isr_nodes=(1,)
        )
        return MetadataResponse(
            brokers=(MetadataResponseBroker(node_id=1, host=HOST, port=self._port),),
            cluster_id="bare",
            controller_id=1,
            topics=tuple(
                MetadataResponseTopic(error_code=0, name=topic.name, topic_id=UUID(int=1), partitions=(partition,))
                for topic in request.topics or ()
            ),
        )


def _acknowledged(request: ProduceRequest) -> ProduceResponse:
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    BareLoop.batch = bytes(partition.records or b"")
    answer = PartitionProduceResponse(index=partition.index, error_code=0, base_offset=0)
    return ProduceResponse(responses=(TopicProduceResponse(name=topic.name, partition_responses=(answer,)),))


def _fetched(request: FetchRequest) -> FetchResponse:
    if not request.topics:
        # librdkafka asks for nothing while its queue is full.
        return FetchResponse(responses=())
    (topic,) = request.topics
    (partition,) = topic.partitions
    batch = BareLoop.batch
    data = PartitionData(
        partition_index=partition.partition,
        error_code=0,
        high_watermark=_END,
        last_stable_offset=_END,
        aborted_transactions=None,
        records=partition.fetch_offset.to_bytes(_BASE_OFFSET_BYTES, "big") + batch[_BASE_OFFSET_BYTES:],
    )
    return FetchResponse(responses=(FetchableTopicResponse(topic=topic.topic, partitions=(data,)),))


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    port = 0
    server = await loop.create_server(lambda: BareLoop(port), HOST, 0)
    port = server.sockets[0].getsockname()[1]
    print(port, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    keep_freed_memory()
    asyncio.run(_serve())
