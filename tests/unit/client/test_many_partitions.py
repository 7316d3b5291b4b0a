"""What a consumer does once for many partitions, and not with each of them."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.client.fake_cluster import FakeCluster, tp
from tests.unit.client.clients import consumer_of, fill, read

PARTITIONS = 100


@pytest.mark.parametrize("is_sought", [True, False], ids=["seek", "resume"])
async def test_partitions_that_are_sought_or_resumed_one_after_the_other_cost_no_request_each(is_sought: bool) -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders", partitions=PARTITIONS)
    places = [tp("orders", number) for number in range(PARTITIONS)]
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        await consumer.position(places[-1])
        if not is_sought:
            consumer.pause(*places)
        for number in range(PARTITIONS):
            fill(cluster, "orders", 1, number)
        await asyncio.sleep(1)
        fetched = cluster.brokers[1].fetched
        fetched.clear()
        for place in places:
            if is_sought:
                consumer.seek(place, 0)
            else:
                consumer.resume(place)
            await asyncio.sleep(0.01)
        assert len(fetched) < 5
        records = await read(consumer, PARTITIONS)
        assert {record.partition for record in records} == set(range(PARTITIONS))


@pytest.mark.parametrize("is_sought", [True, False], ids=["seek", "resume"])
async def test_a_poll_that_waits_gets_what_another_task_seeks_or_resumes(is_sought: bool) -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    fill(cluster, "orders", 1)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders")])
        if is_sought:
            await read(consumer, 1)
        else:
            consumer.pause(tp("orders"))
        polling = asyncio.ensure_future(consumer.poll(timeout_ms=60_000))
        await asyncio.sleep(5)
        assert not polling.done()
        if is_sought:
            consumer.seek(tp("orders"), 0)
        else:
            consumer.resume(tp("orders"))
        async with asyncio.timeout(1):
            assert len(await polling) == 1
