"""Our clients hold to what a broker tells them that they have to wait."""

from __future__ import annotations

import asyncio

import pytest

from kraft.client.aio.producer import Producer
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.virtual_time import virtual_network
from tests.unit.client.clients import consumer_of, fill, read


async def test_a_producer_sends_nothing_as_long_as_it_is_throttled() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    network = virtual_network(cluster)
    async with Producer(cluster.bootstrap_servers, network=network, request_timeout_ms=1_000) as producer:
        await producer.send_and_wait("orders", b"one")
        cluster.throttle_time_ms = 5_000
        await producer.send_and_wait("orders", b"two")
        began_s = asyncio.get_running_loop().time()
        # Longer than request.timeout.ms: it has not been sent, so it is not late.
        await producer.send_and_wait("orders", b"three")
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(5, abs=0.1)
    assert [record.value for record in cluster.partition("orders").records()] == [b"one", b"two", b"three"]


async def test_a_consumer_fetches_nothing_as_long_as_it_is_throttled() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    fill(cluster, "orders", 10)
    cluster.throttle_time_ms = 5_000
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders")])
        await read(consumer, 10)
        began_s = asyncio.get_running_loop().time()
        fill(cluster, "orders", 10)
        await read(consumer, 10)
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(5, abs=0.1)
