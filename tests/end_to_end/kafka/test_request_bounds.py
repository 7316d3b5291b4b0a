"""`socket.request.max.bytes` on a real node: the largest request is taken, and one byte more is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import Refusal
from kraft.rpc.calls import METADATA
from kraft.rpc.peers import PeerConnections, Unreachable
from kraft.testing import Cluster
from kraft.wire.frame import SIZE_BYTES, encode_request
from kraft.wire.schema import metadata
from tests.support.kafka.kafka_connection import Connection
from tests.support.waiting import until

BOUND = 200_000
DEADLINE_S = 30
VERSION = 1
"""A version in which a name takes two bytes and its own."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {
        "socket.request.max.bytes": str(BOUND),
        "message.max.bytes": str(BOUND // 2),
        "auto.create.topics.enable": "false",
    }
    with Cluster(nodes=1, overrides=settings) as running:
        yield running


def about(names: list[str]) -> metadata.MetadataRequest:
    return metadata.MetadataRequest(topics=tuple(metadata.MetadataRequestTopic(name=name) for name in names))


def request_of(size_bytes: int) -> metadata.MetadataRequest:
    """Return a request with its header, without the four bytes of the size."""
    # A message may have no more elements than its kibibytes.
    names = ["n" * 8_000] * (size_bytes // 8_100)
    missing = size_bytes - frame_bytes(about([*names, ""]))
    request = about([*names, "n" * missing])
    assert frame_bytes(request) == size_bytes
    return request


def frame_bytes(request: metadata.MetadataRequest) -> int:
    return len(b"".join(encode_request(request, VERSION, 7, "tests"))) - SIZE_BYTES


def test_a_request_of_kafkas_protocol_is_taken_up_to_the_bound_and_refused_above_it(cluster: Cluster) -> None:
    with Connection(cluster.kafka_bootstrap_servers) as connection:
        connection.send(request_of(BOUND), VERSION)
        assert connection.frame() is not None
        connection.send(request_of(BOUND + 1), VERSION)
        assert connection.frame() is None
    said = f"request of {BOUND + 1} bytes: must have 8 to {BOUND} (socket.request.max.bytes)"
    until(lambda: said in cluster.node(1).log_path.read_text(), cluster.node(1).log_tail)


def test_a_request_of_grpc_is_taken_up_to_the_bound_and_refused_above_it(cluster: Cluster) -> None:
    async def ask(size_bytes: int) -> int:
        """About `size_bytes`: each name takes three bytes more than it has."""
        connections = PeerConnections()
        try:
            peer = connections.peer(cluster.bootstrap_servers)
            names = [f"{number:n>997}" for number in range(size_bytes // 1_000)]
            return len((await peer.call(METADATA, metadata_of(names), DEADLINE_S)).topics)
        finally:
            await connections.close()

    assert asyncio.run(ask(BOUND - 1_000)) == (BOUND - 1_000) // 1_000
    with pytest.raises((Unreachable, Refusal), match=f"larger than max.*{BOUND}"):
        asyncio.run(ask(BOUND + 1_000))
