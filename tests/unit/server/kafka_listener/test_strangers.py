"""Connections of clients that have to log in, on real sockets: their places, memory, time and rate."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import structlog
from msgspec.structs import replace
from structlog.testing import capture_logs

from kraft.rpc.refusal_log import RefusalLog
from kraft.server.kafka_listener import listener as listener_module
from kraft.server.kafka_listener.connection import KafkaConnection
from kraft.server.kafka_listener.connection_counts import ConnectionCountLimits
from kraft.server.kafka_listener.creation_rate import AddressRates
from kraft.server.kafka_listener.listener import KafkaListener, ListenerLimits
from kraft.server.kafka_listener.memory import ListenerMemory
from tests.unit.server.kafka_listener.served import DEADLINE_S, PATIENT, Client, Requests

LIMITS = replace(
    PATIENT,
    counts=ConnectionCountLimits(clients_max=100, strangers_max=100, address_max=100),
    stranger_frame_bytes_max=10_000,
)


class Served:
    """A listener whose clients log in with `hello`, once the test answers it."""

    def __init__(self, limits: ListenerLimits) -> None:
        self.memory = ListenerMemory(limits.frame_bytes_max)
        self.listener = KafkaListener(limits, RefusalLog(lambda: 0), self.memory)
        self.requests: list[Requests] = []
        self.clients: list[Client] = []
        self.port = 0

    async def listen(self, creation_rate_max: int | None = None) -> None:
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        await self.listener.listen(
            "127.0.0.1", self.port, self._new, asks_for_login=True, creation_rate_max=creation_rate_max
        )

    def _new(self, peer: str) -> Requests:
        self.requests.append(Requests(is_trusted=False))
        return self.requests[-1]

    async def client(self, address: str = "127.0.0.1") -> Client:
        """Connect from that address, and wait until the connection is served."""
        before = len(self.requests)
        client = await self.connect(address)
        self.clients.append(client)
        await self.until(lambda: len(self.requests) > before)
        return client

    async def connect(self, address: str = "127.0.0.1") -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0)))

    async def log_in(self, client: Client) -> None:
        requests = self.requests[self.clients.index(client)]
        client.send(b"hello")
        await self.until(lambda: b"hello" in requests.waiting)
        requests.waiting[b"hello"].set_result(b"welcome")
        assert await client.answer() == b"welcome"

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():  # noqa: ASYNC110  What is waited for happens on the other side of a socket.
            await asyncio.sleep(0.005)


def run(
    test: Callable[[Served], Coroutine[Any, Any, None]],
    limits: ListenerLimits = LIMITS,
    creation_rate_max: int | None = None,
) -> list[str]:
    """Run the test and return the reasons that were logged."""

    async def with_deadline() -> None:
        async with asyncio.timeout(DEADLINE_S):
            served = Served(limits)
            await served.listen(creation_rate_max)
            try:
                await test(served)
            finally:
                for client in served.clients:
                    client.writer.close()
                await served.listener.stop(0)

    structlog.reset_defaults()
    with capture_logs() as lines:
        asyncio.run(with_deadline())
    return [line["reason"] for line in lines]


def counts(**limits: int) -> ListenerLimits:
    return replace(LIMITS, counts=replace(LIMITS.counts, **limits))


def test_a_stranger_has_to_log_in_in_time() -> None:
    async def test(served: Served) -> None:
        silent, client = await served.client(), await served.client()
        await served.log_in(client)
        assert await silent.is_closed()
        client.send(b"now, later")
        assert await client.answer() == b"answer to now, later"

    limits = replace(LIMITS, connection=replace(LIMITS.connection, login_s_max=1.0))
    assert run(test, limits) == ["client had not logged in after 1 s"]


def test_a_stranger_sends_small_requests_only_until_it_has_logged_in() -> None:
    async def test(served: Served) -> None:
        stranger, client = await served.client(), await served.client()
        await served.log_in(client)
        large = b"now, " + bytes(20_000)
        client.send(large)
        assert await client.answer() == b"answer to " + large
        stranger.writer.write((10_001).to_bytes(4, "big"))
        assert await stranger.is_closed()

    (reason,) = run(test)
    assert reason == "request of 10001 bytes: must have 0 to 10000 (sasl.server.max.receive.size)"


def test_what_strangers_send_takes_no_memory_of_clients() -> None:
    async def test(served: Served) -> None:
        stranger = await served.client()
        stranger.writer.write((9_000).to_bytes(4, "big") + bytes(5_000))
        await served.until(lambda: served.memory.strangers.held_bytes > 0)
        assert served.memory.receive.held_bytes == 0
        stranger.writer.close()
        await served.until(lambda: served.memory.strangers.held_bytes == 0)

    assert run(test) == []


@pytest.mark.parametrize("request_", [b"fail", b"last"])
def test_the_last_response_arrives_before_the_connection_ends(request_: bytes) -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.send(request_)
        assert await client.answer() == b"last answer"
        assert await client.is_closed()

    assert run(test) == ["asked to fail" if request_ == b"fail" else "asked to end"]


def test_a_client_to_which_there_is_an_objection_has_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "CHECKED_AT_ONCE_MAX", 2)

    async def test(served: Served) -> None:
        for _ in range(5):
            await served.log_in(await served.client())
        client = await served.client()
        await served.log_in(client)
        client.send(b"wait for ever")
        await served.until(lambda: b"wait for ever" in served.requests[5].waiting)
        served.requests[5].objects = "user 'alice' was deleted"
        assert await client.is_closed()

    assert run(test) == ["user 'alice' was deleted"]


class TurnsCounted:
    """How often a method of connections was called in each turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *methods: str) -> None:
        self.calls: Counter[tuple[str, int]] = Counter()
        self._turn = 0
        for method in methods:
            monkeypatch.setattr(KafkaConnection, method, self._counted(method, getattr(KafkaConnection, method)))

    def _counted(self, method: str, call: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: object) -> object:
            self.calls[method, self._turn] += 1
            return call(*given)

        return counted

    async def count(self) -> None:
        while True:
            self._turn += 1
            await asyncio.sleep(0)

    def most(self, method: str) -> tuple[int, int]:
        """Return the calls, and the most of them in one turn."""
        found = [count for (name, _), count in self.calls.items() if name == method]
        return sum(found), max(found)


def test_of_many_connections_that_end_only_some_end_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "ENDED_AT_ONCE_MAX", 2)
    turns = TurnsCounted(monkeypatch, "_end", "connection_lost")

    async def test(served: Served) -> None:
        for _ in range(7):
            await served.log_in(await served.client())
        counting = asyncio.create_task(turns.count())
        for requests in served.requests:
            requests.objects = "user 'alice' was deleted"
        for client in served.clients:
            assert await client.is_closed()
        await served.until(lambda: served.listener.connection_count == 0)
        counting.cancel()

    run(test)
    assert turns.most("_end") == (7, 2)
    assert turns.most("connection_lost") == (7, 2)


@pytest.mark.parametrize("grace_s", [0.0, DEADLINE_S])
def test_of_many_connections_that_a_stop_ends_only_some_end_in_one_turn(
    grace_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_module, "ENDED_AT_ONCE_MAX", 2)
    turns = TurnsCounted(monkeypatch, "drain", "abort", "connection_lost")

    async def test(served: Served) -> None:
        for _ in range(7):
            await served.log_in(await served.client())
        counting = asyncio.create_task(turns.count())
        stopping = asyncio.create_task(served.listener.stop(grace_s))
        if grace_s:
            for client in served.clients:
                assert await client.is_closed()
                client.writer.close()
        await stopping
        await served.until(lambda: served.listener.connection_count == 0)
        counting.cancel()

    run(test)
    assert turns.most("drain") == (7, 2)
    if not grace_s:
        assert turns.most("abort") == (7, 2)
        assert turns.most("connection_lost") == (7, 2)


def test_the_oldest_stranger_makes_room_for_the_next_one() -> None:
    async def test(served: Served) -> None:
        strangers = [await served.client(f"127.0.0.{number}") for number in range(1, 4)]
        await served.log_in(strangers[0])
        await served.client("127.0.0.4")
        assert served.listener.connection_count == 4
        await served.client("127.0.0.5")
        assert await strangers[1].is_closed()
        for client in (strangers[0], strangers[2]):
            client.send(b"now, still here")
            assert await client.answer() == b"answer to now, still here"

    assert run(test, counts(strangers_max=3)) == ["others that had not logged in either took its place"]


def test_one_address_takes_a_part_of_the_strangers_places() -> None:
    async def test(served: Served) -> None:
        first = await served.client()
        second = await served.connect()
        assert await second.is_closed()
        await served.log_in(first)
        await served.client()

    assert run(test, counts(strangers_max=7)) == ["1 connections of 127.0.0.1 have not logged in yet"]


def test_one_address_has_so_many_connections() -> None:
    async def test(served: Served) -> None:
        for _ in range(2):
            await served.log_in(await served.client())
        third = await served.connect()
        assert await third.is_closed()
        assert served.listener.connection_count == 2
        served.clients[0].writer.close()
        await served.until(lambda: served.listener.connection_count == 1)
        await served.client()

    (reason,) = run(test, counts(address_max=2))
    assert reason == "too many connections of 127.0.0.1: raise max.connections.per.ip, which allows 2"


def test_a_client_that_logs_in_where_all_places_are_taken_has_to_go() -> None:
    async def test(served: Served) -> None:
        first, second = await served.client(), await served.client()
        await served.log_in(first)
        await served.log_in(second)
        assert await second.is_closed()
        first.send(b"now, still here")
        assert await first.answer() == b"answer to now, still here"

    (reason,) = run(test, counts(clients_max=1))
    assert reason.startswith("too many connections: raise max.connections")


def test_an_address_that_opens_connections_too_fast_is_refused_before_it_costs_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener_module, "AddressRates", lambda: AddressRates(per_second=0.001, burst=3))

    async def test(served: Served) -> None:
        for _ in range(3):
            await served.client()
        for _ in range(10):
            refused = await served.connect()
            assert await refused.is_closed()
            refused.writer.close()
        assert len(served.requests) == 3, "no transport was made of the others"
        await served.client("127.0.0.2")

    assert run(test) == ["127.0.0.1 opens connections too fast"]


def test_an_address_whose_logins_fail_may_open_fewer_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "AddressRates", lambda: AddressRates(per_second=0.001, burst=12.5))

    async def test(served: Served) -> None:
        await served.log_in(await served.client())
        failing = await served.client()
        failing.send(b"fail")
        assert await failing.answer() == b"last answer"
        assert await failing.is_closed()
        refused = await served.connect()
        assert await refused.is_closed()

    assert run(test) == ["asked to fail", "127.0.0.1 opens connections too fast"]


def test_connections_beyond_the_rate_wait_to_be_accepted() -> None:
    async def test(served: Served) -> None:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for _ in range(15):
            await served.client()
        # Ten at once, and then one in a tenth of a second.
        assert 0.4 <= loop.time() - began_s < 20

    assert run(test, creation_rate_max=10) == []
