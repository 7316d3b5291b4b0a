"""Real connections to a real gRPC server, with a real look at the files of this process."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import grpc.aio
import pytest
from msgspec.structs import replace

from kraft.rpc.gatekeeper import Gatekeeper
from kraft.rpc.peers import CLIENT_ID
from kraft.rpc.received_messages import EMPTY_CALLS_MAX, Received
from kraft.rpc.refusal_log import RefusalLog
from kraft.rpc.user_agents import PRIMARY
from kraft.server.process import connection_rules, connection_watch
from kraft.server.process.connection_rules import ConnectionRules
from kraft.server.process.connection_watch import Watched, watch_connections
from kraft.server.process.grpc_clients import GrpcClients
from tests.soak.loads.http2_flood import Stranger

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="the system does not say what a socket has received"
    ),
]

METHOD = "/kraft.v1.Test/Echo"
MESSAGE = 1024 * 1024


class Echo:
    """A server with one method, and a watch of its connections."""

    def __init__(self, gatekeeper: Gatekeeper, port: int, watched: Watched) -> None:
        self.gatekeeper = gatekeeper
        self.port = port
        self.watched = watched


@asynccontextmanager
async def echo(
    connections_max: int = 100, message_bytes_max: int = MESSAGE, host_max: Callable[[str], int] | None = None
) -> AsyncIterator[Echo]:
    refusals = RefusalLog(lambda: 0)
    gatekeeper = Gatekeeper(
        cluster_id="c", cluster_secrets=None, is_guarded=lambda _: False, message_bytes_max=None, refusals=refusals
    )
    server = grpc.aio.server(
        interceptors=[gatekeeper], options=[("grpc.max_receive_message_length", 16 * MESSAGE), ("grpc.so_reuseport", 0)]
    )

    async def answer(request: bytes, _: object) -> bytes:
        return request[:1]

    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(answer, bytes, bytes)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("kraft.v1.Test", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    watched = Watched(
        port=port,
        received=gatekeeper.received,
        rules=ConnectionRules(connections_max=connections_max, message_bytes_max=message_bytes_max, host_max=host_max),
        requires_proof=False,
    )
    look_now = asyncio.Event()
    gatekeeper.received.flood_began = look_now.set
    watching = asyncio.create_task(watch_connections([watched], refusals, look_now, set()))
    # It counts what this process uses before the first connection comes.
    await asyncio.sleep(0)
    try:
        yield Echo(gatekeeper, port, watched)
    finally:
        watching.cancel()
        await server.stop(None)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  What is waited for happens on the other side of a socket.
            await asyncio.sleep(0.01)


def fill(stranger: Stranger) -> None:
    # It may be ended while it sends.
    with suppress(OSError):
        stranger.send_what_fits()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_watch, "LOOK_S_MAX", 0.0)


async def test_an_honest_client_stays_connected_whatever_it_sends() -> None:
    async with echo() as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        call: Any = channel.unary_unary(METHOD)
        for _ in range(50):
            answers = [call(b"y" * MESSAGE) for _ in range(4)]
            assert await asyncio.gather(*answers) == [b"y"] * 4
        await asyncio.sleep(0.6)
        assert served.watched.rules.unfinished_bytes < connection_rules.PART_BYTES_MIN


async def test_unfinished_messages_end_their_connection() -> None:
    async with echo() as served:
        stranger = await asyncio.to_thread(Stranger, served.port, METHOD, 4, MESSAGE)
        await asyncio.to_thread(fill, stranger)
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(stranger.is_closed, 10.0)


async def test_an_unfinished_message_ends_its_connection_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_rules, "ARRIVAL_S_MAX", 0.5)
    async with echo() as served:
        stranger = await asyncio.to_thread(Stranger, served.port, METHOD, 1, MESSAGE)
        await asyncio.to_thread(fill, stranger)
        assert await asyncio.to_thread(stranger.is_closed, 10.0)


async def test_in_a_crowd_clients_stay_and_strangers_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_rules, "STRANGER_S_MAX", 0.3)
    async with echo(connections_max=10) as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        call: Any = channel.unary_unary(METHOD)
        assert await call(b"y") == b"y"
        strangers = [await asyncio.to_thread(Stranger, served.port, METHOD, 0, 0) for _ in range(8)]
        assert all([await asyncio.to_thread(each.is_closed, 10.0) for each in strangers])
        assert channel.get_state() is grpc.ChannelConnectivity.READY
        assert await call(b"y") == b"y"


async def test_an_address_with_too_many_connections_keeps_those_that_came_first() -> None:
    def host_max(host: str) -> int:
        assert host == "127.0.0.1"
        return 2

    async with echo(host_max=host_max) as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        call: Any = channel.unary_unary(METHOD)
        assert await call(b"y") == b"y"
        await asyncio.sleep(2 * connection_watch.PERIOD_S)
        strangers = [await asyncio.to_thread(Stranger, served.port, METHOD, 0, 0) for _ in range(4)]
        closed = [await asyncio.to_thread(each.is_closed, 1.0) for each in strangers]
        assert sorted(closed) == [False, True, True, True]
        assert await call(b"y") == b"y"


@pytest.fixture
def looks_when_files_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.stat("/proc/self/fd").st_size:
        pytest.skip("the system does not say how many files are open")
    monkeypatch.setattr(connection_watch, "LOOK_S_MAX", 1_000.0)
    monkeypatch.setattr(connection_watch, "GROWTH_BYTES", 1 << 40)


@pytest.mark.usefixtures("looks_when_files_are_opened")
async def test_a_crowd_is_noticed_when_it_comes() -> None:
    async with echo(connections_max=40) as served:
        strangers = [await asyncio.to_thread(Stranger, served.port, METHOD, 0, 0) for _ in range(36)]
        # Those that came first go first, until the rest is no crowd: how many that is depends on when the looks came.
        for each in strangers[:16]:
            assert await asyncio.to_thread(each.is_closed, 10.0)


@pytest.mark.usefixtures("looks_when_files_are_opened")
async def test_a_crowd_that_comes_during_a_look_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    strangers: list[Stranger] = []
    looks: list[object] = []

    def look(ports: Any) -> Any:
        seen = looked(ports)
        if not looks:
            connect(18)
        looks.append(seen)
        return seen

    looked = connection_watch.connections_of
    async with echo(connections_max=40) as served:

        def connect(number: int) -> None:
            strangers.extend([Stranger(served.port, METHOD, 0, 0) for _ in range(number)])

        monkeypatch.setattr(connection_watch, "connections_of", look)
        await asyncio.to_thread(connect, 18)
        await until(lambda: len(strangers) == 36)
        for each in strangers[:16]:
            assert await asyncio.to_thread(each.is_closed, 10.0)


async def test_the_watch_goes_on_while_the_process_has_no_file_left(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []

    def listdir(path: str) -> list[str]:
        if path == "/proc/self/fd" and len(refused) < 3:
            refused.append(path)
            raise OSError(errno.EMFILE, "Too many open files")
        return listed(path)

    listed = os.listdir
    async with echo() as served:
        monkeypatch.setattr(os, "listdir", listdir)
        stranger = await asyncio.to_thread(Stranger, served.port, METHOD, 4, MESSAGE)
        await asyncio.to_thread(fill, stranger)
        assert await asyncio.to_thread(stranger.is_closed, 10.0)
    assert len(refused) == 3


async def test_a_connection_that_begins_during_a_look_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, has_looked = asyncio.get_running_loop(), asyncio.Event()

    def see_none(_: object) -> list[object]:
        loop.call_soon_threadsafe(has_looked.set)
        return []

    async with echo() as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        received = served.gatekeeper.received
        monkeypatch.setattr(received, "counts", dict)
        call: Any = channel.unary_unary(METHOD)
        assert await call(b"y") == b"y"
        monkeypatch.setattr(connection_watch, "connections_of", see_none)
        for _ in range(3):
            has_looked.clear()
            async with asyncio.timeout(10):
                await has_looked.wait()
        monkeypatch.undo()
        assert len(received.counts()) == 1


async def test_a_call_that_was_cancelled_leaves_nothing_unfinished() -> None:
    async with echo() as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        without_request: Any = channel.stream_unary(METHOD)
        waiting = without_request()
        received = served.gatekeeper.received
        await until(lambda: any(each.old_calls for each in received.counts().values()))
        waiting.cancel()
        await until(lambda: not any(each.old_calls for each in received.counts().values()))
        assert received.counts()


async def test_an_open_stream_does_not_keep_cancelled_uploads_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine the node may read a cancellation, and the upload before it, only after some time.
    monkeypatch.setattr(connection_rules, "OVERFULL_S_MAX", 1.0)
    async with echo(message_bytes_max=8 * MESSAGE) as served:
        client = await asyncio.to_thread(Stranger, served.port, METHOD, 1, 0)
        for _ in range(8):
            upload = client.begin(6 * MESSAGE)
            await asyncio.to_thread(client.send_what_fits, 0.3)
            client.cancel(upload)
        assert not await asyncio.to_thread(client.is_closed, 1.0)


async def test_a_flood_of_calls_without_messages_ends_its_connection_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_watch, "PERIOD_S", 100.0)
    async with echo() as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        call: Any = channel.unary_unary(METHOD)
        assert await call(b"y") == b"y"
        stranger = await asyncio.to_thread(Stranger, served.port, METHOD, EMPTY_CALLS_MAX, 0)
        assert not await asyncio.to_thread(stranger.is_closed, 0.5)
        stranger.begin(0)
        assert await asyncio.to_thread(stranger.is_closed, 10.0)
        assert channel.get_state() is grpc.ChannelConnectivity.READY


async def test_many_uploads_that_have_not_arrived_are_no_flood() -> None:
    async with echo(message_bytes_max=16 * MESSAGE) as served:
        client = await asyncio.to_thread(Stranger, served.port, METHOD, 0, 0)
        for _ in range(2 * EMPTY_CALLS_MAX):
            client.begin(MESSAGE // 16)
            await asyncio.to_thread(client.send_what_fits, 0.001)
        assert not await asyncio.to_thread(client.is_closed, 1.0)


async def test_calls_that_are_cancelled_without_a_message_are_a_flood_too() -> None:
    async with echo() as served:
        stranger = await asyncio.to_thread(Stranger, served.port, METHOD, 0, 0)
        with suppress(OSError):
            for _ in range(2 * EMPTY_CALLS_MAX):
                stranger.cancel(stranger.begin(0))
                await asyncio.sleep(0.002)
        assert await asyncio.to_thread(stranger.is_closed, 10.0)


async def test_calls_of_a_method_that_is_not_served_are_a_flood_too() -> None:
    async with echo() as served:
        stranger = await asyncio.to_thread(Stranger, served.port, "/kraft.v1.Test/Unknown", 2 * EMPTY_CALLS_MAX, 0)
        assert await asyncio.to_thread(stranger.is_closed, 10.0)


async def test_connections_that_ended_are_forgotten() -> None:
    async with echo() as served:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            call: Any = channel.unary_unary(METHOD)
            assert await call(b"y") == b"y"
            assert served.gatekeeper.received.counts()
        await until(lambda: not served.gatekeeper.received.counts())


async def test_a_client_is_described_with_what_the_system_counts_of_its_bytes() -> None:
    async with echo() as served:
        clients, options = GrpcClients("GRPC", served.port, served.gatekeeper.received), [(PRIMARY, "orders/1.2")]
        assert await clients.connections() == []
        async with grpc.aio.insecure_channel(f"127.0.0.1:{served.port}", options=options) as channel:
            call: Any = channel.unary_unary(METHOD)
            for _ in range(2):
                assert await call(b"y" * 100_000, metadata=((CLIENT_ID, b"reader"),)) == b"y"
            (found,) = await clients.connections()
        assert (found.listener, found.principal, found.client_id) == ("GRPC", "User:ANONYMOUS", "reader")
        assert (found.software_name, found.software_version) == ("orders", "1.2")
        assert found.address.startswith("127.0.0.1:")
        assert found.requests == 2
        assert 200_000 < found.received_bytes < 210_000
        assert 0 < found.sent_bytes < 20_000
        # Its calls are remembered until the next look, but it has ended.
        async with asyncio.timeout(10):
            while await clients.connections():
                pass


async def test_the_watch_goes_on_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[object] = []

    def look(ports: Any) -> Any:
        if len(refused) < 3:
            refused.append(ports)
            raise RuntimeError("can't start new thread")
        return looked(ports)

    looked = connection_watch.connections_of
    monkeypatch.setattr(connection_watch, "connections_of", look)
    async with echo() as served:
        stranger = await asyncio.to_thread(Stranger, served.port, METHOD, 4, MESSAGE)
        await asyncio.to_thread(fill, stranger)
        assert await asyncio.to_thread(stranger.is_closed, 10.0)
    assert len(refused) == 3


def test_a_descriptor_that_became_another_connection_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            with accepted:
                looked = connection_watch.connections_of([port])
                (seen,) = [each for each in looked if each.descriptor == accepted.fileno()]
                for other in (replace(seen, peer="ipv4:127.0.0.1:1"), replace(seen, port=1)):
                    connection_watch._end(other)
                    client.sendall(b"y")
                    assert accepted.recv(1) == b"y"
                connection_watch._end(seen)
                assert accepted.recv(1) == b""


async def test_what_a_client_sends_while_it_reads_is_explained() -> None:
    seen = connection_watch.ConnectionSample(
        port=1, peer="ipv4:127.0.0.1:1", descriptor=0, received_bytes=1_000, acked_bytes=25_600
    )
    async with echo() as served:
        counts = Received(explained_bytes=500, messages=1, settled_bytes=0)
        reads = connection_watch._sample(seen, counts, served.watched)
        only_sends = connection_watch._sample(replace(seen, acked_bytes=0), counts, served.watched)
    assert (reads.explained_bytes, only_sends.explained_bytes) == (600, 500)
