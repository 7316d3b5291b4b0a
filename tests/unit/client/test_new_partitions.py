"""Partitions that a topic gets while a client reads it."""

from __future__ import annotations

import asyncio

import pytest

from kraft.model.errors import Refusal
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.fake_partition import FakePartition
from tests.unit.client.clients import consumer_of, fill, read


def grow(cluster: FakeCluster, topic: str) -> int:
    """Add a partition to the topic, and return its number."""
    cluster.topics[topic].append(FakePartition(leader_id=1))
    return len(cluster.topics[topic]) - 1


async def test_a_new_partition_is_assigned_without_an_error() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=2)
    fill(cluster, "orders", 10)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders")])
        await read(consumer, 10)
        new = grow(cluster, "orders")
        fill(cluster, "orders", 5, new)
        consumer.assign([tp("orders"), tp("orders", new)])
        assert [(record.partition, record.offset) for record in await read(consumer, 5)] == [
            (new, offset) for offset in range(5)
        ]


async def test_the_offsets_of_a_new_partition_are_found() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with consumer_of(cluster) as consumer:
        assert await consumer.end_offsets([tp("orders")]) == {tp("orders"): 0}
        new = grow(cluster, "orders")
        fill(cluster, "orders", 5, new)
        assert await consumer.end_offsets([tp("orders", new)]) == {tp("orders", new): 5}


async def test_a_partition_that_comes_a_moment_after_its_assignment_is_read() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders", 1)])
        polling = asyncio.create_task(read(consumer, 5))
        await asyncio.sleep(1)
        fill(cluster, "orders", 5, grow(cluster, "orders"))
        assert len(await polling) == 5


async def test_a_partition_that_never_comes_is_an_error_after_a_moment() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with consumer_of(cluster) as consumer:
        consumer.assign([tp("orders", 1)])
        with pytest.raises(Refusal, match="topic 'orders' has partitions 0 to 0, not 1"):
            await consumer.poll(timeout_ms=30_000)


async def test_a_partition_that_comes_long_after_its_error_is_read() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders", 1)])
        with pytest.raises(Refusal, match="topic 'orders' has partitions 0 to 0, not 1"):
            await consumer.poll(timeout_ms=30_000)
        fill(cluster, "orders", 5, grow(cluster, "orders"))
        assert len(await read(consumer, 5)) == 5


async def test_a_new_partition_is_read_although_the_broker_that_was_asked_does_not_learn_of_it() -> None:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=2)
    fill(cluster, "orders", 5)
    cluster.brokers[1].partitions_known["orders"] = 1
    async with consumer_of(cluster) as consumer:
        assert [part.next_offset async for part in consumer.read_columns(tp("orders"), 0, 5)] == [5]
        new = grow(cluster, "orders")
        cluster.move_leader("orders", new, 2)
        fill(cluster, "orders", 5, new)
        assert [part.next_offset async for part in consumer.read_columns(tp("orders", new), 0, 5)] == [5]
        newer = grow(cluster, "orders")
        cluster.move_leader("orders", newer, 3)
        assert await consumer.end_offsets([tp("orders", newer)]) == {tp("orders", newer): 0}
