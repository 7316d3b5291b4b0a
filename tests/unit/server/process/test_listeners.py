from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.rpc.gatekeeper import Gatekeeper
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.requests_in_progress import RequestsInProgress
from kraft.server.config.values import GRPC, Listener
from kraft.server.process import listeners as listeners_module
from kraft.server.process.listeners import GRACE_S, STREAM_GRACE_S, Listeners
from tests.unit.server.kafka_listener.served import Served, framed, run


class FakeServer:
    """A gRPC server with a stream that nobody ends."""

    def __init__(self) -> None:
        self.is_refusing = False
        self.graces_s: list[float | None] = []
        self._cut_off = asyncio.Event()

    async def stop(self, grace_s: float | None) -> None:
        self.is_refusing = True
        self.graces_s.append(grace_s)
        asyncio.get_running_loop().call_later(grace_s or 0, self._cut_off.set)
        await self._cut_off.wait()


def listeners(servers: list[FakeServer], in_progress: list[RequestsInProgress]) -> Listeners:
    config = SimpleNamespace(kafka_listeners=(), is_broker=True, is_controller=True)
    made = Listeners(cast(Any, config), "c", cast(Any, None), b"", 1_024)
    made._grpc, made._in_progress = cast(Any, servers), in_progress
    return made


def elapsed_s(since_s: float = 0.0) -> float:
    return asyncio.get_running_loop().time() - since_s


async def test_a_stop_does_not_wait_for_streams_that_are_held_open() -> None:
    began_s = elapsed_s()
    await listeners([FakeServer(), FakeServer()], [RequestsInProgress()]).stop()
    assert round(elapsed_s(began_s), 3) == STREAM_GRACE_S


async def test_a_stop_refuses_requests_at_once_and_waits_for_those_in_progress_on_every_listener() -> None:
    servers, counts = [FakeServer(), FakeServer()], [RequestsInProgress(), RequestsInProgress()]
    for count in counts:
        count.begun()
    stop = asyncio.create_task(listeners(servers, counts).stop())
    await asyncio.sleep(GRACE_S / 4)
    assert all(server.is_refusing for server in servers)
    counts[0].ended()
    await asyncio.sleep(GRACE_S / 4)
    assert not stop.done()
    counts[1].ended()
    began_s = elapsed_s()
    await stop
    assert round(elapsed_s(began_s), 3) == STREAM_GRACE_S


async def test_no_grace_of_grpc_itself_ends_while_another_stop_may_destroy_the_server() -> None:
    """That crashes the process (grpcio 1.85): the one cancels the calls of a server that the other has destroyed."""
    server = FakeServer()
    await listeners([server], [RequestsInProgress()]).stop()
    first, last = server.graces_s
    assert first is not None
    assert first > 1_000 * GRACE_S
    assert last is None, "at once"


async def test_a_request_that_takes_longer_than_the_grace_is_cut_off() -> None:
    count = RequestsInProgress()
    count.begun()
    began_s = elapsed_s()
    await listeners([FakeServer()], [count]).stop()
    assert round(elapsed_s(began_s), 3) <= GRACE_S + STREAM_GRACE_S


class FakeNodeConnections:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


async def test_a_stop_closes_the_connections_of_nodes_which_requests_in_progress_may_need() -> None:
    count, connections = RequestsInProgress(), FakeNodeConnections()
    count.begun()
    made = listeners([FakeServer()], [count])
    made._node_connections = cast(Any, connections)
    stop = asyncio.create_task(made.stop())
    await asyncio.sleep(GRACE_S / 4)
    assert not connections.is_closed, "an append waits for replicas, which fetch over these connections"
    count.ended()
    await stop
    assert connections.is_closed


async def test_connections_of_nodes_are_cut_off_with_the_rest() -> None:
    made, connections = listeners([FakeServer()], []), FakeNodeConnections()
    made._node_connections = cast(Any, connections)
    await asyncio.gather(*made.cut_off())
    assert connections.is_closed


def test_a_stop_answers_the_requests_of_kafka_clients_and_cuts_off_those_that_take_longer() -> None:
    async def stop(served: Served) -> None:
        quick, slow, idle = [await served.client() for _ in range(3)]
        quick.send(b"wait for the test")
        slow.send(b"wait for ever")
        await served.until(lambda: len(served.requests.waiting) == 2)
        made = listeners([FakeServer()], [RequestsInProgress()])
        made._kafka = served.listener
        stopping = asyncio.create_task(made.stop())
        await asyncio.sleep(0)
        served.requests.waiting[b"wait for the test"].set_result(b"answer")
        assert b"".join(framed(await quick.answer())) == b"".join(framed(b"answer"))
        await stopping
        assert served.listener.connection_count == 0
        assert served.requests.cancelled == [b"wait for ever"]
        assert await slow.is_closed()
        assert await idle.is_closed()

    run(stop)


@pytest.mark.real_time
async def test_connections_of_the_process_before_are_known_before_anybody_can_connect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a node that starts again takes its own peers for clients of another protocol."""
    listener, steps = Listener(name=GRPC, host="localhost", port=9094), list[object]()

    class Stop(Exception):
        """No port is opened."""

    def bind(*_: object) -> None:
        steps.append("opened")
        raise Stop

    def remembered_peers(port: int) -> set[str]:
        steps.append(port)
        return {"ipv4:127.0.0.1:1"}

    monkeypatch.setattr(listeners_module, "_bind", bind)
    monkeypatch.setattr(listeners_module, "remembered_peers", remembered_peers)
    made = listeners([], [])
    config = SimpleNamespace(listener=lambda name: listener, node_id=1)
    gatekeeper = Gatekeeper(
        cluster_id="c",
        cluster_secrets=None,
        is_guarded=lambda method: False,
        message_bytes_max=None,
        refusals=RefusalLog(lambda: 0),
    )
    made._config = cast(Any, config)
    made._credentials = cast(
        Any, SimpleNamespace(gatekeeper=lambda name, clients: gatekeeper, server_credentials=lambda name: None)
    )
    with pytest.raises(Stop):
        await made.listen(GRPC, [], [])
    assert steps == [9094, "opened"]
    assert made._ended_peers == {"ipv4:127.0.0.1:1"}


def test_what_is_said_of_connections_that_grpc_ended_names_both_possible_reasons() -> None:
    """The system tells that gRPC ended them, not why. With `too_many_pings` it also ends those of gRPC clients."""
    grpc_listener = Listener(name=GRPC, host="localhost", port=9094)
    made = listeners([], [])
    kafka = Listener(name="PLAINTEXT", host="kafka.example", port=9092)
    for advertised, instead in (
        ((kafka, grpc_listener), "connects to PLAINTEXT://kafka.example:9092"),
        ((grpc_listener,), "has no listener at this node"),
    ):
        made._config = cast(Any, SimpleNamespace(listeners=(grpc_listener,), advertised_listeners=advertised))
        assert made._remedies() == {
            9094: f"gRPC ended its connections to GRPC://localhost:9094: it may be a Kafka client, which {instead}, "
            "or a gRPC client whose keepalive is too frequent"
        }
