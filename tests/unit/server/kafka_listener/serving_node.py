"""A node with both listeners, for its own kind: it answers fetches of replicas."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import grpc.aio
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.local.free_ports import ReservedPorts
from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode
from kraft.model.replica_fetch import ReplicaFetchRequest, ReplicaFetchResponse, ReplicaFetchResult
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.rpc.frame_connection import FrameConnection
from kraft.rpc.frame_exchange import ExchangeLink, FrameStream
from kraft.rpc.gatekeeper import Gatekeeper
from kraft.rpc.introduced_channel import IntroducedChannel
from kraft.rpc.introductions import ClusterSecrets
from kraft.rpc.peers import PeerConnections
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.served_frames import ServedFrames
from kraft.rpc.services import Service
from kraft.server.kafka_listener.answering import MakeRequests
from kraft.server.kafka_listener.listener import KafkaListener, TlsAnswering
from kraft.server.kafka_listener.memory import ListenerMemory
from kraft.server.kafka_listener.requests import KafkaRequests
from kraft.tls.contexts import ServerContext
from kraft.tls.dialling import TlsDialling
from kraft.tls.handshakes import TlsPeer
from tests.unit.server.kafka_listener.served import PATIENT

HOST = "127.0.0.1"
SECRETS = ClusterSecrets([b"the secret of the cluster"])
OTHERS = ClusterSecrets([b"the secret of another cluster"])
DEADLINE_S = 30.0
FETCH = ReplicaFetchRequest(
    number=1, replica_id=2, broker_epoch=3, max_wait_ms=0, min_bytes=0, max_bytes=0, partitions=[]
)

Stream = FrameStream[ReplicaFetchRequest, ReplicaFetchResponse]
Link = ExchangeLink[ReplicaFetchRequest, ReplicaFetchResponse]


def response(number: int, size: int = 0) -> ReplicaFetchResponse:
    read = ReplicaFetchResult(topic_id=UUID(int=1), partition=0, error_code=ErrorCode.NONE, records=b"r" * size)
    return ReplicaFetchResponse(number=number, partitions=[read])


@dataclass
class Node:
    """A node with both listeners. It answers request N with N bytes of records, once the test opens its gate."""

    grpc_port: int
    kafka_port: int
    frames: ServedFrames | None = None
    listener: KafkaListener | None = None
    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    held_back: set[int] = field(default_factory=set)
    made: list[int] = field(default_factory=list)
    fails: bool = False
    """No further response can be made."""

    async def answer(self, request: ReplicaFetchRequest) -> Callable[[], ReplicaFetchResponse]:
        if request.number in self.held_back:
            await self.is_open.wait()

        def make() -> ReplicaFetchResponse:
            if self.fails:
                raise RuntimeError("a bug")
            self.made.append(request.number)
            return response(request.number, request.max_bytes)

        return make

    def kafka_connections(self) -> int:
        """Return how many connections count as those of Kafka clients."""
        assert self.listener is not None
        return self.listener.connection_count

    def node_sockets(self) -> list[socket.socket]:
        """Return this end of the connections of nodes."""
        assert self.frames is not None
        return [socket_of(connection._connection) for connection in self.frames._connections]

    @asynccontextmanager
    async def serving(
        self, secrets: ClusterSecrets | None = SECRETS, connections_max: int = 100, tls: ServerContext | None = None
    ) -> AsyncIterator[None]:
        refusals = RefusalLog(lambda: 0)
        gatekeeper = Gatekeeper(
            cluster_id="cluster",
            cluster_secrets=secrets,
            is_guarded=lambda _: True,
            message_bytes_max=None,
            refusals=refusals,
        )
        server = grpc.aio.server(interceptors=[gatekeeper])
        for service in (gatekeeper, Service(REPLICA_FETCH.served_by(self.answer))):
            service.add_to(server)
        server.add_insecure_port(f"{HOST}:{self.grpc_port}")
        await server.start()
        frames = self.frames = ServedFrames(REPLICA_FETCH.served_by(self.answer), gatekeeper, refusals)
        limits = replace(PATIENT, counts=replace(PATIENT.counts, clients_max=connections_max, strangers_max=100))
        listener = self.listener = KafkaListener(limits, refusals, ListenerMemory(1_000_000))

        def answering(shown: TlsPeer | None) -> MakeRequests:
            certificate = None if shown is None else shown.own_certificate
            return lambda peer: KafkaRequests({}, peer, nodes=frames, certificate=certificate)

        await listener.listen(
            HOST, self.kafka_port, answering(None) if tls is None else TlsAnswering(lambda: tls, answering)
        )
        try:
            yield
        finally:
            frames.close()
            await listener.stop(0)
            await server.stop(None)


def dial_as(secrets: ClusterSecrets | None) -> PeerConnections:
    def dial(address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(address, options=options)
        return channel if secrets is None else IntroducedChannel(channel, secrets, "cluster", 7)

    return PeerConnections(dial)


def link_to(
    node: Node, connections: PeerConnections, kafka_port: int | None = None, tls: TlsDialling | None = None
) -> Link:
    endpoint = Endpoint(listener="PLAINTEXT", host=HOST, port=kafka_port or node.kafka_port)
    return ExchangeLink(connections.peer(f"{HOST}:{node.grpc_port}"), endpoint, REPLICA_FETCH, tls)


def play(scene: Callable[[Node, PeerConnections], Coroutine[Any, Any, None]], **serving: Any) -> list[str]:
    """Play a scene with a node that serves; return why peers were refused."""

    async def run(ports: list[int]) -> None:
        node, connections = Node(ports[0], ports[1]), dial_as(SECRETS)
        async with asyncio.timeout(DEADLINE_S), node.serving(**serving):
            await scene(node, connections)
            await connections.close()

    with capture_logs() as lines, ReservedPorts(2) as ports:
        asyncio.run(run(list(ports)))
    return [line["reason"] for line in lines if line["event"] == "peer refused"]


def socket_of(connection: FrameConnection) -> socket.socket:
    found: socket.socket = connection._transport.get_extra_info("socket")
    return found
