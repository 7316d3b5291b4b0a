from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import pytest
from structlog.testing import capture_logs

from kraft.local.free_ports import ReservedPorts
from kraft.metadata.metadata_requests import metadata_of
from kraft.model.errors import ErrorCode
from kraft.model.follow_metadata import FollowMetadataRequest, MetadataBatch
from kraft.model.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResult
from kraft.model.ids import BrokerEpoch, BrokerId
from kraft.model.refused_for import RefusedFor
from kraft.model.replica_fetch import ReplicaFetchRequest, ReplicaFetchResponse
from kraft.rpc import gatekeeper
from kraft.rpc.calls import FETCH, METADATA, PRODUCE
from kraft.rpc.cluster_calls import FOLLOW_METADATA, HEARTBEAT, REPLICA_FETCH
from kraft.rpc.gatekeeper import REPLICATION_SERVICE, Gatekeeper, introduced_node_id
from kraft.rpc.introduced_channel import IntroducedChannel
from kraft.rpc.introductions import HEADER, ClusterSecrets, Introduction, Secret, SessionBook, SessionForgotten
from kraft.rpc.peers import NotAdmitted, PeerConnections, Unreachable
from kraft.rpc.received_messages import CALL_BYTES, EMPTY_CALLS_MAX
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.services import Service
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse

SECRETS = ClusterSecrets([b"the secret of the cluster"])
OTHERS = ClusterSecrets([b"the secret of another cluster"])
BEAT = BrokerHeartbeatRequest(
    broker_id=BrokerId(1), broker_epoch=BrokerEpoch(2), metadata_index=3, wants_shutdown=False
)
FETCH_NOTHING = ReplicaFetchRequest(
    replica_id=BrokerId(1), broker_epoch=BrokerEpoch(2), max_wait_ms=0, min_bytes=1, max_bytes=1, partitions=[]
)
METHOD = "/kraft.v1.Controller/Heartbeat"
MESSAGE_BYTES_MAX = 1_000
ATTEMPTS_MAX = 10


def everything(_: str) -> bool:
    return True


def nothing(_: str) -> bool:
    return False


@dataclass
class Node:
    """One that serves brokers and clients, and counts whom it has answered."""

    port: int = 0
    answered: int = 0
    gatekeeper: Gatekeeper | None = None

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResult:
        assert request == BEAT
        self.answered += 1
        return BrokerHeartbeatResult(error_code=ErrorCode.NONE, error_message="", is_fenced=True)

    async def follow_metadata(self, request: FollowMetadataRequest) -> AsyncGenerator[MetadataBatch, None]:
        self.answered += 1
        for index in range(request.after_index, 3):
            yield MetadataBatch(index=index, term=1, records=b"", committed_index=3)

    async def fetch(self, _: ReplicaFetchRequest) -> Callable[[], ReplicaFetchResponse]:
        self.answered += 1
        return lambda: ReplicaFetchResponse(partitions=[])

    async def metadata(self, _: MetadataRequest) -> MetadataResponse:
        return MetadataResponse(cluster_id="", controller_id=1, brokers=(), topics=())

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @asynccontextmanager
    async def serving(
        self, secrets: ClusterSecrets | None = SECRETS, is_guarded: Callable[[str], bool] = everything
    ) -> AsyncIterator[None]:
        self.refusals = RefusalLog(lambda: 0)
        guard = self.gatekeeper = Gatekeeper(
            cluster_id="cluster",
            cluster_secrets=secrets,
            is_guarded=is_guarded,
            message_bytes_max=MESSAGE_BYTES_MAX,
            refusals=self.refusals,
        )
        server = grpc.aio.server(interceptors=[guard])
        calls = Service(
            HEARTBEAT.served_by(self.heartbeat),
            FOLLOW_METADATA.served_by(self.follow_metadata),
            REPLICA_FETCH.served_by(self.fetch),
            METADATA.served_by(self.metadata),
            PRODUCE.served_by(unasked),
            FETCH.served_by(unasked),
        )
        for service in (guard, calls):
            service.add_to(server)
        self.port = server.add_insecure_port(self.address)
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)


async def unasked(_: object) -> None:
    raise AssertionError("nobody asks for this here")


def bare_channel(node: Node) -> Any:
    """Return a channel for bytes instead of messages, which gRPC's types do not cover."""
    return grpc.aio.insecure_channel(node.address)


def dial_as(secrets: ClusterSecrets | None, cluster_id: str = "cluster", node_id: int = 7) -> PeerConnections:
    def dial(address: str, options: list[tuple[str, Any]]) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(address, options=options)
        return channel if secrets is None else IntroducedChannel(channel, secrets, cluster_id, node_id)

    return PeerConnections(dial)


async def beat(node: Node, connections: PeerConnections) -> BrokerHeartbeatResult:
    return await connections.peer(node.address).call(HEARTBEAT, BEAT, 5)


async def followed(node: Node, connections: PeerConnections) -> list[int]:
    peer = connections.peer(node.address)
    request = FollowMetadataRequest(cluster_id="cluster", broker_id=BrokerId(1), after_index=0)
    return [batch.index async for batch in peer.follow(FOLLOW_METADATA, request)]


async def fetched(node: Node, connections: PeerConnections, times: int = 3) -> int:
    for _ in range(ATTEMPTS_MAX):
        try:
            return await fetched_at_once(node, connections, times)
        except Unreachable as broken:
            # gRPC drops the peer's reason when the end of a stream crosses with a request on the way.
            if "Internal error from Core" not in str(broken):
                raise
    raise AssertionError("every stream has broken without a reason")


async def fetched_at_once(node: Node, connections: PeerConnections, times: int) -> int:
    stream = connections.peer(node.address).open(REPLICA_FETCH)
    try:
        for _ in range(times):
            # The reader may be there before the stream is.
            reading = asyncio.create_task(stream.receive())
            await stream.send(FETCH_NOTHING)
            await reading
    finally:
        await stream.close()
    return times


OF_ANOTHER_CLUSTER = "cluster.id differs: the caller's is 'another', that of the node it called is 'cluster'"

CALLS = [beat, followed, fetched]
Call = Callable[[Node, PeerConnections], Awaitable[object]]


def play(scene: Callable[[Node], Awaitable[None]], **serving: Any) -> list[Any]:
    """Make the calls; return what was logged meanwhile."""

    async def run() -> None:
        node = Node()
        async with node.serving(**serving):
            await scene(node)

    with capture_logs() as lines:
        asyncio.run(run())
    return lines


def test_a_node_of_the_cluster_is_answered_whatever_kind_of_call_it_makes() -> None:
    async def scene(node: Node) -> None:
        connections = dial_as(SECRETS)
        assert (await beat(node, connections)).is_fenced
        assert await followed(node, connections) == [0, 1, 2]
        assert await fetched(node, connections) == 3
        await connections.close()

    assert play(scene) == []


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("connections", "reason"),
    [
        (lambda: dial_as(None), "it sent no proof of the cluster secret: set cluster.secret.file on every node"),
        (lambda: dial_as(OTHERS), "its cluster secret differs: set cluster.secret.file on both nodes"),
        (lambda: dial_as(SECRETS, "another"), OF_ANOTHER_CLUSTER),
        (lambda: dial_as(OTHERS, "another"), OF_ANOTHER_CLUSTER),
    ],
)
def test_a_stranger_is_refused_in_one_line_that_names_it(
    call: Call, connections: Callable[[], PeerConnections], reason: str
) -> None:
    async def scene(node: Node) -> None:
        stranger = connections()
        for _ in range(3):
            with pytest.raises(NotAdmitted, match=f"UNAUTHENTICATED.*{reason[:40]}"):
                await call(node, stranger)
        await stranger.close()
        assert node.answered == 0
        assert [each for each, count in node.refusals.counts.items() if count] == [RefusedFor.NOT_A_NODE]

    (line,) = play(scene)
    assert line["event"] == "peer refused"
    assert reason in line["reason"]
    assert line["peer"].startswith("127.0.0.1:")


@pytest.mark.parametrize("call", CALLS)
def test_a_node_does_not_introduce_itself_to_a_stranger(call: Call) -> None:
    async def scene(node: Node) -> None:
        connections = dial_as(SECRETS)
        with pytest.raises(Unreachable, match=r"it has no cluster secret: set cluster\.secret\.file"):
            await call(node, connections)
        await connections.close()
        assert node.answered == 0

    play(scene, secrets=None)


class Pretender(ClusterSecrets):
    """Says that it knows any secret, and does not."""

    def find(self, secret_id: bytes) -> Secret:
        return Secret(OTHERS.primary.key, secret_id)


def test_the_answering_node_must_know_the_secret_too() -> None:
    async def scene(node: Node) -> None:
        connections = dial_as(SECRETS)
        with pytest.raises(NotAdmitted, match="it does not know this cluster's secret"):
            await beat(node, connections)
        await connections.close()
        assert node.answered == 0

    play(scene, secrets=Pretender([b"the secret of another cluster"]))


@pytest.mark.parametrize("call", CALLS)
def test_a_call_to_a_process_that_does_not_know_the_session_is_made_once_more_without_a_warning(call: Call) -> None:
    async def run(port: int) -> None:
        node, connections = Node(port), dial_as(SECRETS)
        async with node.serving():
            first = await call(node, connections)
        for _ in range(2):
            async with node.serving():
                assert await call(node, connections) == first
        await connections.close()

    with capture_logs() as lines, ReservedPorts(1) as (port,):
        asyncio.run(run(port))
    assert [(line["event"], line["log_level"]) for line in lines] == [("session discarded", "debug")] * 2


@pytest.mark.parametrize("call", CALLS)
def test_a_call_whose_new_session_is_not_known_either_is_not_made_again(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(_: SessionBook, __: Introduction) -> None:
        raise SessionForgotten

    monkeypatch.setattr(SessionBook, "admit", forget)

    async def scene(node: Node) -> None:
        connections = dial_as(SECRETS)
        with pytest.raises(NotAdmitted, match="its session is of an earlier process"):
            await call(node, connections)
        await connections.close()
        assert node.answered == 0

    assert [line["event"] for line in play(scene)] == ["session discarded"] * 2


def test_a_node_with_another_secret_is_refused_with_a_warning_after_a_restart_too() -> None:
    async def run(port: int) -> None:
        node, connections = Node(port), dial_as(SECRETS)
        async with node.serving():
            await beat(node, connections)
        async with node.serving(secrets=OTHERS):
            for call in (*CALLS, *CALLS):
                with pytest.raises(NotAdmitted):
                    await call(node, connections)
        assert node.answered == 1
        await connections.close()

    with capture_logs() as lines, ReservedPorts(1) as (port,):
        asyncio.run(run(port))
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("peer refused", "warning")
    assert line["reason"].startswith("its cluster secret differs")


def test_a_recorded_call_cannot_be_replayed() -> None:
    async def scene(node: Node) -> None:
        connections = dial_as(SECRETS)
        await beat(node, connections)
        dialled = connections.channel(node.address)
        assert isinstance(dialled, IntroducedChannel)
        introducer = dialled._introducer
        session, count = introducer._session, introducer._count
        assert session is not None
        header = Introduction(cluster_id="cluster", node_id=7, session=session, count=count)
        recorded = ((HEADER, header.to_header(SECRETS.primary, METHOD)),)
        async with bare_channel(node) as channel:
            with pytest.raises(grpc.aio.AioRpcError, match="the call was repeated"):
                await channel.unary_unary(METHOD)(b"", metadata=recorded, timeout=30)
        await connections.close()
        assert node.answered == 1

    play(scene)


def test_clients_are_answered_where_only_some_methods_are_for_nodes() -> None:
    async def scene(node: Node) -> None:
        client = dial_as(None)
        answer = await client.peer(node.address).call(METADATA, metadata_of(()), 5)
        assert answer.controller_id == 1
        with pytest.raises(Unreachable, match="UNAUTHENTICATED"):
            await fetched(node, client)
        await client.close()

    play(scene, is_guarded=lambda method: method.startswith(REPLICATION_SERVICE))


def test_without_a_secret_no_caller_is_a_node_not_even_a_local_one() -> None:
    async def scene(node: Node) -> None:
        neighbour = dial_as(None)
        for call in CALLS:
            with pytest.raises(Unreachable, match=r"this node has no cluster secret: set cluster\.secret\.file"):
                await call(node, neighbour)
        await neighbour.close()
        assert node.answered == 0

    (line,) = play(scene, secrets=None)
    assert "has no cluster secret" in line["reason"]


def logged_by_asyncio(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged, but for what gRPC may still say to the loop of a test before."""
    return [each.getMessage() for each in caplog.records if "PollerCompletionQueue" not in each.getMessage()]


@pytest.mark.parametrize("method", [METHOD, "/kraft.v1.Controller/FollowMetadata", "/kraft.v1.Broker/Metadata"])
def test_bytes_that_are_no_request_are_one_line_and_no_traceback(method: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(node: Node) -> None:
        async with bare_channel(node) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                async for _ in channel.unary_stream(method)(b"\xff" * 20, timeout=30):
                    pass
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    (line,) = play(scene, is_guarded=nothing)
    assert line["reason"].startswith(f"{method}: not a valid request: ")
    assert logged_by_asyncio(caplog) == []


def test_a_message_above_the_cap_is_refused_in_one_line_that_names_its_sender() -> None:
    async def scene(node: Node) -> None:
        async with bare_channel(node) as channel:
            for size, expected in ((1_000, "Error parsing"), (1_001, "a message of 1001 bytes is larger than 1000")):
                with pytest.raises(grpc.aio.AioRpcError, match=expected):
                    await channel.unary_unary(METHOD)(b"\xff" * size, timeout=30)
                with pytest.raises(grpc.aio.AioRpcError, match=expected):
                    async for _ in channel.stream_stream(PRODUCE.method)(iter([b"\xff" * size])):
                        pass

    lines = play(scene, is_guarded=nothing)
    assert f"{METHOD}: not a valid request: a message of 1001 bytes is larger than 1000" in [
        line["reason"] for line in lines
    ]


@pytest.mark.parametrize("method", [REPLICA_FETCH.method, "/kraft.v1.Broker/Produce", "/kraft.v1.Broker/Fetch"])
def test_a_stream_of_bytes_that_are_no_request_ends_without_a_traceback(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(node: Node) -> None:
        async with bare_channel(node) as channel:
            with pytest.raises(grpc.aio.AioRpcError, match="not a valid request") as refused:
                async for _ in channel.stream_stream(method)(iter([b"\xff" * 20]), timeout=30):
                    pass
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    play(scene, is_guarded=nothing)
    assert logged_by_asyncio(caplog) == []


def test_who_introduced_itself_is_known_to_the_handlers() -> None:
    said = Introduction(cluster_id="cluster", node_id=7, session=bytes(24), count=1).to_header(SECRETS.primary, METHOD)
    assert introduced_node_id([("other", b"x"), (HEADER, said)]) == 7
    assert introduced_node_id([]) is None


@pytest.mark.real_time
async def test_a_request_that_does_not_come_ends_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gatekeeper, "REQUEST_S_MAX", 0.2)

    async def never() -> AsyncIterator[bytes]:
        await asyncio.sleep(60)
        yield b""

    node = Node()
    async with node.serving(is_guarded=nothing), bare_channel(node) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await channel.stream_unary(METADATA.method)(never())
    assert ended.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert ended.value.details() == f"{METADATA.method}: the request had not arrived completely after 0.2 s"


@pytest.mark.real_time
async def test_messages_are_counted_for_the_connection_that_they_came_on() -> None:
    node, connections = Node(), dial_as(SECRETS)
    async with node.serving():
        await beat(node, connections)
        assert node.gatekeeper is not None
        received = node.gatekeeper.received
        ((peer, counts),) = received.counts().items()
        # The first was for the proof.
        assert counts.messages == 2
        assert counts.explained_bytes > 2 * CALL_BYTES
        assert received.is_known(peer)
        received.forget([peer])
        assert (received.counts(), received.is_known(peer)) == ({}, False)
        await connections.close()


async def code_of(call: Any) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


@pytest.mark.real_time
@pytest.mark.parametrize("method", [METHOD, "/kraft.v1.Controller/Unknown"])
async def test_refused_calls_are_calls_without_a_message(method: str) -> None:
    node = Node()
    async with node.serving(), bare_channel(node) as channel:
        codes = {await code_of(channel.unary_unary(method)(b"")) for _ in range(EMPTY_CALLS_MAX + 1)}
        assert node.gatekeeper is not None
        (counts,) = node.gatekeeper.received.counts().values()
    assert codes == {"UNAUTHENTICATED" if method == METHOD else "UNIMPLEMENTED"}
    assert counts.has_too_many
