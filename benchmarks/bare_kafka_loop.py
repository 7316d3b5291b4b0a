"""Upper bounds for a broker of Kafka's protocol in Python: servers that keep no state.

`loop` decodes a produce request, computes the batch's checksum, writes it to a file and encodes the response. `floor`
does nothing with it but the system calls: it writes the request to the file and sends an earlier response again. Both
answer a fetch with the last batch that came, whose offsets alone are put right. Every topic exists, with one partition.
`python -m benchmarks.bare_kafka_loop loop|floor FILE` appends to the file, prints its port, and ends when its standard
input does.
"""

from __future__ import annotations

import asyncio
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Final
from uuid import UUID

from kraft.log.format.record_batch import check_crc, read_header
from kraft.runtime.allocator import keep_freed_memory
from kraft.wire.api_keys import ApiKey, request_type
from kraft.wire.codec import decode
from kraft.wire.declaration import Message
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


class Kind(StrEnum):
    LOOP = "loop"
    FLOOR = "floor"


_VERSIONS: Final = {
    ApiKey.PRODUCE: (0, 9),
    ApiKey.FETCH: (4, 11),
    ApiKey.METADATA: (0, 12),
    ApiKey.API_VERSIONS: (0, 3),
}
"""librdkafka asks for record batches only of who has these."""

_ROOM_BYTES: Final = 4 << 20
_PRODUCE_KEY: Final = int(ApiKey.PRODUCE).to_bytes(2, "big")
_CORRELATION_ID: Final = slice(4, 8)
"""In a request without its size, and in a response with it."""

_BASE_OFFSET_BYTES: Final = 8
_END: Final = 1 << 40
"""Log end offset that the one partition reports: no reader gets there."""


class BareLoop(asyncio.BufferedProtocol):
    batch = b""
    """The last that came on any connection."""

    def __init__(self, kind: Kind, port: int, file: int) -> None:
        self._is_floor = kind is Kind.FLOOR
        self._port = port
        self._file = file
        self._again = b""
        """The last response to a produce request that was decoded."""
        self._decoded_bytes = 0
        """Size of that request."""
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
            self._answer(view[position + 4 : end])
            position = end
        self._room[: self._filled - position] = self._room[position : self._filled]
        self._filled -= position

    def _answer(self, frame: memoryview) -> None:
        is_produce = frame[:2] == _PRODUCE_KEY
        if self._is_floor and is_produce and len(frame) <= self._decoded_bytes:
            os.write(self._file, frame)
            self._transport.write(self._again[:4] + frame[_CORRELATION_ID] + self._again[8:])
            return
        header, position = decode_request_header(frame)
        request = decode(request_type(header.api_key), header.api_version, frame, position)
        pieces = encode_response(self._respond(request, header), header.api_version, header.correlation_id)
        if is_produce:
            self._again, self._decoded_bytes = b"".join(pieces), len(frame)
        for piece in pieces:
            self._transport.write(piece)

    def _respond(self, request: Message, header: RequestHeader) -> Message:
        match request:
            case ProduceRequest():
                return self._stored(request)
            case FetchRequest():
                return _fetched(request)
            case MetadataRequest():
                return self._metadata(request)
            case _:
                keys = tuple(
                    ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in _VERSIONS.items()
                )
                return ApiVersionsResponse(error_code=0, api_keys=keys)

    def _stored(self, request: ProduceRequest) -> ProduceResponse:
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        records = memoryview(partition.records or b"")
        check_crc(read_header(records), records)
        os.write(self._file, records)
        BareLoop.batch = bytes(records)
        answer = PartitionProduceResponse(index=partition.index, error_code=0, base_offset=0)
        return ProduceResponse(responses=(TopicProduceResponse(name=topic.name, partition_responses=(answer,)),))

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


async def _serve(kind: Kind, path: Path) -> None:
    loop = asyncio.get_running_loop()
    port = 0
    with path.open("ab", buffering=0) as file:
        server = await loop.create_server(lambda: BareLoop(kind, port, file.fileno()), HOST, 0)
        port = server.sockets[0].getsockname()[1]
        print(port, flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
        server.close()


if __name__ == "__main__":
    keep_freed_memory()
    asyncio.run(_serve(Kind(sys.argv[1]), Path(sys.argv[2])))
