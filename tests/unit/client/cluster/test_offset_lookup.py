"""Consumers whose positions are looked up: at first, and after a reset."""

from __future__ import annotations

import asyncio

import pytest

from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.model.errors import ErrorCode, Refusal
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.unit.client.clients import consumer_of, fill, read


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
    ],
)
async def test_a_refused_look_up_is_repeated_if_that_may_help(code: ErrorCode) -> None:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    fill(cluster, "orders", 7)
    async with consumer_of(cluster) as consumer:
        await consumer.partitions_for("orders")
        cluster.brokers[1].refusals["list_offsets"] = Refusal(code, "the call is refused")
        if code.retriable:
            cluster.move_leader("orders", 0, 2)
            assert await consumer.end_offsets([tp("orders")]) == {tp("orders"): 7}
            assert cluster.calls[-1] == "broker-2:9094 list_offsets"
        else:
            with pytest.raises(Refusal, match="INVALID_REQUEST: orders-0: the call is refused"):
                await consumer.end_offsets([tp("orders")])


async def test_a_partition_without_a_leader_does_not_delay_the_positions_of_others() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=3, leader_id=1)
    fill(cluster, "orders", 10, 0)
    fill(cluster, "orders", 10, 1)
    cluster.partition("orders", 1).leader_id = -1
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders", 0), tp("orders", 1)])
        started_s = asyncio.get_running_loop().time()
        assert {record.partition for record in await read(consumer, 10)} == {0}
        consumer.assign([tp("orders", number) for number in range(3)])
        assert await consumer.position(tp("orders", 2)) == 0
        assert asyncio.get_running_loop().time() - started_s < 1
        with pytest.raises(Refusal, match="orders-1 has no leader"):
            await consumer.poll(timeout_ms=100_000)
        cluster.move_leader("orders", 1, 2)
        assert {record.partition for record in await read(consumer, 10)} == {1}


async def test_a_missing_partition_does_not_stop_the_others() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    fill(cluster, "orders", 10)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders"), tp("orders", 7)])
        assert len(await consumer.poll()) == 10
        with pytest.raises(Refusal, match="topic 'orders' has partitions 0 to 0, not 7"):
            await consumer.poll(timeout_ms=30_000)
        fill(cluster, "orders", 5)
        await asyncio.sleep(1)
        assert len(await read(consumer, 5)) == 5


@pytest.mark.parametrize("is_asked", ["poll", "position"])
async def test_a_consumer_goes_on_once_what_it_could_not_look_up_is_there(is_asked: str) -> None:
    cluster = FakeCluster(brokers=1)
    cluster.brokers[1].is_up = False
    async with consumer_of(cluster, auto_offset_reset="earliest", default_api_timeout_ms=10_000) as consumer:
        consumer.assign([tp("orders")])
        for reason in (NoBrokerReachable, Refusal):
            with pytest.raises(reason):
                await (consumer.poll(30_000) if is_asked == "poll" else consumer.position(tp("orders"), 30_000))
            cluster.brokers[1].is_up = True
        cluster.create("orders")
        fill(cluster, "orders", 10)
        assert len(await read(consumer, 10)) == 10


@pytest.mark.parametrize("policy", ["earliest", "latest"])
async def test_what_was_fetched_before_a_reset_is_returned_before_it(policy: str) -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders", partitions=2)
    fill(cluster, "orders", 30, 0)
    fill(cluster, "orders", 30, 1)
    async with consumer_of(cluster, auto_offset_reset=policy) as consumer:
        consumer.assign([tp("orders", 0), tp("orders", 1)])
        for number in range(2):
            consumer.seek(tp("orders", number), 0)
        first = await consumer.poll(max_records=5)
        await asyncio.sleep(1)
        cluster.partition("orders", 0).log_start_offset = 45
        fill(cluster, "orders", 20, 0)
        await asyncio.sleep(5)
        assert await consumer.position(tp("orders", first[0].partition)) == 5
        records = first + await read(consumer, 55)
        assert [each.offset for each in records if each.partition == 1] == list(range(30))
        assert [each.offset for each in records if each.partition == 0] == list(range(30))
        assert await consumer.position(tp("orders", 0)) == (45 if policy == "earliest" else 50)
        if policy == "earliest":
            assert [each.offset for each in await read(consumer, 5)] == list(range(45, 50))


async def test_the_offsets_of_a_topic_that_was_deleted_are_not_waited_for() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with consumer_of(cluster) as consumer:
        await consumer.end_offsets([tp("orders")])
        del cluster.topics["orders"]
        started_s = asyncio.get_running_loop().time()
        with pytest.raises(Refusal, match="'orders'") as caught:
            await consumer.end_offsets([tp("orders")])
        assert caught.value.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert asyncio.get_running_loop().time() - started_s < 7
