from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from kraft.rpc.requests_in_progress import RequestsInProgress
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
