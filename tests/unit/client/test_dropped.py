"""Clients that are dropped without a close leave no task, connection or member behind."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from typing import Any

import pytest

from kraft.client.aio import Consumer, Producer
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.virtual_time import virtual_network
from tests.unit.client.clients import admin_of, consumer_of, fill
from tests.unit.client.members import GROUP, cluster_with_orders, member_of
from tests.unit.client.members import until as eventually
from tests.unit.client.transactions import cluster_with as transactional_cluster
from tests.unit.client.transactions import committed, ends, producer_of

DROPPED = r"an? (admin|consumer|producer) was dropped without a close"


async def _used_consumer(cluster: FakeCluster) -> Consumer:
    cluster.create("orders")
    fill(cluster, "orders", 5)
    consumer = consumer_of(cluster, auto_offset_reset="earliest")
    consumer.assign([tp("orders")])
    assert await consumer.poll(10_000)
    return consumer


async def test_a_consumer_that_is_dropped_closes_its_connections() -> None:
    cluster = FakeCluster()
    consumer = await _used_consumer(cluster)
    with pytest.warns(ResourceWarning, match=DROPPED):
        del consumer
    await eventually(lambda: bool(cluster.closed) and len(asyncio.all_tasks()) == 1)


async def test_a_member_that_is_dropped_leaves_its_group_and_commits_without_the_last_poll() -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        revoked: list[object] = []
        consumer = member_of(cluster)
        consumer.subscribe("orders", on_revoked=revoked.append)
        assert len(await consumer.poll(10_000, max_records=5)) == 5
        assert len(await consumer.poll(10_000, max_records=5)) == 5
        with pytest.warns(ResourceWarning, match=DROPPED):
            del consumer
        await eventually(lambda: bool(cluster.closed))
        assert groups.committed(GROUP, "orders", 0) == 5
        assert revoked == [], "its owner has dropped it, and expects no calls"
        async with member_of(cluster, 2) as next_member:
            next_member.subscribe("orders")
            began_s = asyncio.get_running_loop().time()
            assert await next_member.poll(30_000)
            assert asyncio.get_running_loop().time() - began_s < 10, "the group waited for the dropped member"


class Reader:
    """Owns a consumer, whose callbacks are its methods."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.consumer = member_of(cluster)
        self.consumer.subscribe("orders", on_revoked=self.revoked)

    def revoked(self, _: object) -> None:
        raise AssertionError("its owner has dropped it, and expects no calls")


def _drop(dropped: list[Any]) -> None:
    dropped.clear()
    gc.collect()


async def test_a_member_that_is_dropped_with_the_owner_of_its_callbacks_leaves_its_group() -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        readers = [Reader(cluster)]
        for _ in range(2):
            assert len(await readers[0].consumer.poll(10_000, max_records=5)) == 5
        with pytest.warns(ResourceWarning, match=DROPPED):
            _drop(readers)
        await eventually(lambda: bool(cluster.closed))
        assert groups.committed(GROUP, "orders", 0) == 5


async def test_a_client_that_is_dropped_is_closed_although_warnings_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster()
    consumer = await _used_consumer(cluster)
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: raised.append(unraisable.exc_type))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del consumer
    assert raised == [ResourceWarning]
    await eventually(lambda: bool(cluster.closed))


async def test_a_producer_that_is_dropped_stores_what_was_sent() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    producer = Producer(cluster.bootstrap_servers, network=virtual_network(cluster), linger_ms=60_000)
    future = await producer.send("orders", b"x")
    with pytest.warns(ResourceWarning, match=DROPPED):
        del producer
    assert (await future).offset == 0
    await eventually(lambda: bool(cluster.closed) and len(asyncio.all_tasks()) == 1)


async def test_a_transactional_producer_that_is_dropped_aborts_its_transaction() -> None:
    """Readers of committed records would wait for its timeout."""
    async with transactional_cluster() as (cluster, transactions):
        producers = [producer_of(cluster, transaction_timeout_ms=900_000)]
        await producers[0].begin_transaction()
        await (await producers[0].send("orders", b"stored"))
        await producers[0].send("orders", b"sent")
        with pytest.warns(ResourceWarning, match=DROPPED):
            _drop(producers)
        began_s = asyncio.get_running_loop().time()
        await eventually(lambda: bool(cluster.closed))
        assert asyncio.get_running_loop().time() - began_s < 10
        assert ends(transactions) == [(0, False)]
        assert await committed(cluster) == []


async def test_a_transaction_that_is_prepared_outlives_its_dropped_producer() -> None:
    async with transactional_cluster() as (cluster, transactions):
        producers = [producer_of(cluster)]
        await producers[0].begin_transaction()
        await (await producers[0].send("orders", b"stored"))
        assert await producers[0].prepare_transaction()
        with pytest.warns(ResourceWarning, match=DROPPED):
            _drop(producers)
        await eventually(lambda: bool(cluster.closed))
        assert ends(transactions) == []


async def test_an_admin_client_that_is_dropped_closes_its_connections() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    admins = [admin_of(cluster)]
    assert await admins[0].describe_topics(["orders"])
    with pytest.warns(ResourceWarning, match=DROPPED):
        _drop(admins)
    await eventually(lambda: bool(cluster.closed) and len(asyncio.all_tasks()) == 1)


async def test_clients_that_were_closed_or_never_used_are_dropped_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    producer, consumer = Producer(cluster.bootstrap_servers, network=virtual_network(cluster)), consumer_of(cluster)
    await producer.send_and_wait("orders", b"x")
    await consumer.end_offsets([tp("orders")])
    await producer.close()
    await consumer.close()
    unused = consumer_of(cluster)
    del producer, consumer, unused
    gc.collect()
    assert [each for each in recwarn if issubclass(each.category, ResourceWarning)] == []
