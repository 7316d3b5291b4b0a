"""A bug of the client's own must be named, and must neither stop a producer silently nor keep its records waiting."""

from __future__ import annotations

import asyncio

import pytest

from kraft.client.aio.producer import Producer
from kraft.client.model.errors import ClientClosed
from kraft.client.sans_io.send_buffer import SendBuffer
from tests.support.client.fake_cluster import FakeCluster
from tests.support.virtual_time import virtual_network


def fails_once(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    works, failures = getattr(SendBuffer, method), [ZeroDivisionError("a bug")]

    def step(self: SendBuffer, *arguments: object) -> object:
        if failures:
            raise failures.pop()
        return works(self, *arguments)

    monkeypatch.setattr(SendBuffer, method, step)


def with_partitions(count: int) -> tuple[FakeCluster, Producer]:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders", partitions=count)
    return cluster, Producer(cluster.bootstrap_servers, network=virtual_network(cluster))


async def test_answers_that_cannot_be_taken_break_their_link_at_once_and_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, producer = with_partitions(3)
    began_s = asyncio.get_running_loop().time()
    async with producer:
        futures = [await producer.send("orders", b"x", partition=number) for number in range(3)]
        fails_once(monkeypatch, "answered")
        assert [(await future).offset for future in futures] == [0, 0, 0]
    assert asyncio.get_running_loop().time() - began_s < 10
    assert [cluster.values("orders", number) for number in range(3)] == [[b"x"]] * 3
    assert [each.message for each in caplog.records] == ["produce stream failed: broker=broker-1:9094"]


async def test_a_producer_that_cannot_go_on_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _, producer = with_partitions(1)
    async with producer:
        await producer.send_and_wait("orders", b"x")
        waiting = await producer.send("orders", b"x")
        fails_once(monkeypatch, "expire")
        with pytest.raises(ClientClosed, match="a bug"):
            await waiting
        with pytest.raises(ClientClosed, match="a bug"):
            await producer.send("orders", b"x")
    assert [each.message for each in caplog.records] == ["producer stopped: internal error"]
