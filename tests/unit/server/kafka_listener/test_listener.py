"""Resources that the connections of one listener share. Real sockets, as in test_connection."""

from __future__ import annotations

import asyncio

import pytest

from kraft.server.kafka_listener import listener as listener_module
from kraft.server.kafka_listener.connection import KafkaConnection
from tests.unit.server.kafka_listener.served import Served, run

LARGE = bytes(5_000)
"""Padding of a request; two of these are more than may be carried out together."""


def answer_to(request: bytes) -> bytes:
    return b"answer to " + request


def test_large_requests_of_several_connections_take_turns() -> None:
    async def test(served: Served) -> None:
        first, second, small = [await served.client() for _ in range(3)]
        first.send(b"wait" + LARGE)
        await served.until(lambda: len(served.requests.begun) == 1)
        second.send(b"now, " + LARGE, b"now, after it")
        small.send(b"now, small")
        assert await small.answer() == answer_to(b"now, small"), "who asks for little does not notice"
        assert served.requests.begun == [b"wait" + LARGE, b"now, small"]
        served.requests.waiting[b"wait" + LARGE].set_result(b"done")
        assert await first.answer() == b"done"
        assert await second.answer() == answer_to(b"now, " + LARGE)
        assert await second.answer() == answer_to(b"now, after it")

    assert run(test) == []


def test_a_turn_ends_with_its_connection() -> None:
    async def test(served: Served) -> None:
        first, second, third = [await served.client() for _ in range(3)]
        first.send(b"wait" + LARGE)
        await served.until(lambda: len(served.requests.begun) == 1)
        second.send(b"shut" + LARGE)
        third.send(b"now, " + LARGE)
        first.writer.close()
        assert await third.answer() == answer_to(b"now, " + LARGE)
        assert await second.is_closed()

    assert [line["reason"] for line in run(test)] == ["asked to shut"]


def test_the_memory_of_a_request_is_released_when_its_client_is_gone() -> None:
    async def test(served: Served) -> None:
        client = await served.client()
        client.writer.write((900_000).to_bytes(4, "big") + bytes(300_000))
        await served.until(lambda: served.listener.receiving_bytes > 900_000)
        client.writer.close()
        await served.until(lambda: served.listener.receiving_bytes == 0)

    assert run(test) == []


def test_a_request_that_hardly_goes_on_has_to_go_when_others_want_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "CHECK_PERIOD_S", 0.01)

    async def test(served: Served) -> None:
        lazy, other, small = [await served.client() for _ in range(3)]
        lazy.writer.write((900_000).to_bytes(4, "big") + bytes(300_000))
        await served.until(lambda: served.listener.receiving_bytes > 900_000)
        small.send(b"now, " + bytes(200))
        assert await small.answer() == answer_to(b"now, " + bytes(200))
        other.send(b"now, " + bytes(500_000))
        assert await other.answer() == answer_to(b"now, " + bytes(500_000))
        assert await lazy.is_closed()
        assert served.listener.receiving_bytes == 0

    (line,) = run(test)
    assert line["reason"] == "request arrived too slowly while others waited for the memory that it takes"


def test_memory_of_a_very_large_request_is_returned_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back = asyncio.Event()
    checks: list[KafkaConnection] = []
    check = KafkaConnection.check

    def noticed(connection: KafkaConnection) -> bool:
        checks.append(connection)
        return check(connection)

    monkeypatch.setattr(KafkaConnection, "check", noticed)
    monkeypatch.setattr(listener_module, "CHECK_PERIOD_S", 0.01)
    monkeypatch.setattr(listener_module, "RETURN_MEMORY_AFTER_S", 0)
    monkeypatch.setattr(listener_module, "release_freed_memory", given_back.set)

    async def test(served: Served) -> None:
        client = await served.client()
        client.send(b"now, small")
        await client.answer()
        checks.clear()
        await served.until(lambda: len(checks) > 3)
        assert not given_back.is_set(), "after a small request"
        client.send(b"now, " + bytes(listener_module.VERY_LARGE_BYTES))
        await client.answer()
        await given_back.wait()

    run(test)
