"""A broker that does not accept a client ends at once what waits for it, as AuthenticationException does in Kafka."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from kraft.client.aio.consumer import Consumer
from kraft.client.aio.producer import Producer
from kraft.client.model.errors import AuthenticationFailed, TransactionAborted
from kraft.client.model.values import ConsumerRecord
from kraft.model.errors import ErrorCode
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.virtual_time import virtual_network
from tests.unit.client import members, transactions
from tests.unit.client.clients import consumer_of, fill, read

REJECTED = AuthenticationFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, "broker-1:9094 refused user 'alice'")


def cluster_of(brokers: int) -> FakeCluster:
    cluster = FakeCluster(brokers)
    cluster.create("orders", partitions=brokers)
    return cluster


def producer_of(cluster: FakeCluster) -> Producer:
    return Producer(cluster.bootstrap_servers, network=virtual_network(cluster))


def reject_everywhere(cluster: FakeCluster) -> None:
    for broker in cluster.brokers.values():
        broker.reject(REJECTED)


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def test_the_first_record_of_a_producer_fails_at_once() -> None:
    cluster = cluster_of(2)
    reject_everywhere(cluster)
    async with producer_of(cluster) as producer:
        began_s = now_s()
        with pytest.raises(AuthenticationFailed, match="refused user 'alice'"):
            await producer.send("orders", b"x")
        assert now_s() - began_s < 1


async def test_later_records_fail_at_once_and_are_stored_again_once_the_user_exists_again() -> None:
    cluster = cluster_of(1)
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("orders", b"before")
        reject_everywhere(cluster)
        began_s = now_s()
        sent = [await producer.send("orders", b"%d" % number) for number in range(3)]
        for each in sent:
            with pytest.raises(AuthenticationFailed):
                await each
        assert now_s() - began_s < 1, "not after delivery.timeout.ms"
        cluster.brokers[1].rejection = None
        await producer.send_and_wait("orders", b"after")
    assert cluster.values("orders") == [b"before", b"after"]


async def test_records_that_wait_for_other_leaders_are_not_concerned() -> None:
    cluster = cluster_of(2)
    async with producer_of(cluster) as producer:
        for partition in (0, 1):
            await producer.send_and_wait("orders", b"before", partition=partition)
        cluster.brokers[1].kill()
        waiting = await producer.send("orders", b"after", partition=0)
        cluster.brokers[2].reject(REJECTED)
        with pytest.raises(AuthenticationFailed):
            await producer.send_and_wait("orders", b"x", partition=1)
        cluster.brokers[1].is_up = True
        await waiting
    assert cluster.values("orders") == [b"before", b"after"]


async def test_records_without_a_leader_fail_when_no_broker_says_where_it_is() -> None:
    cluster = cluster_of(1)
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("orders", b"before")
        cluster.move_leader("orders", 0, -1)
        waiting = await producer.send("orders", b"x")
        await asyncio.sleep(1)
        assert not waiting.done()
        reject_everywhere(cluster)
        began_s = now_s()
        with pytest.raises(AuthenticationFailed):
            await waiting
        assert now_s() - began_s < 2


async def test_records_fail_that_wait_for_a_producer_id() -> None:
    cluster = cluster_of(1)
    cluster.brokers[1].refusals["init_producer_id"] = REJECTED
    async with producer_of(cluster) as producer:
        with pytest.raises(AuthenticationFailed):
            await producer.send_and_wait("orders", b"x")


async def test_a_transaction_fails_at_once() -> None:
    async with transactions.cluster_with() as (cluster, _), transactions.producer_of(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"before")
        reject_everywhere(cluster)
        began_s = now_s()
        await producer.send("orders", b"x")
        with pytest.raises(TransactionAborted) as aborted:
            await producer.commit_transaction()
        assert isinstance(aborted.value.__cause__, AuthenticationFailed)
        assert now_s() - began_s < 1
        for broker in cluster.brokers.values():
            broker.rejection = None
        await producer.abort_transaction()


async def test_a_poll_raises_it_and_reads_on_once_the_user_exists_again() -> None:
    cluster = cluster_of(1)
    async with (
        producer_of(cluster) as producer,
        Consumer(cluster.bootstrap_servers, network=virtual_network(cluster), auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([tp("orders")])
        await producer.send_and_wait("orders", b"before")
        assert [record.value for record in await consumer.poll(5_000)] == [b"before"]
        reject_everywhere(cluster)
        began_s = now_s()
        for _ in range(2):
            with pytest.raises(AuthenticationFailed, match="refused user 'alice'"):
                await consumer.poll(60_000)
        assert now_s() - began_s < 5
        cluster.brokers[1].rejection = None
        await producer.send_and_wait("orders", b"after")
        assert [record.value for record in await consumer.poll(5_000)] == [b"after"]


async def test_a_poll_raises_it_when_no_broker_says_where_a_leader_is() -> None:
    cluster = cluster_of(1)
    async with Consumer(cluster.bootstrap_servers, network=virtual_network(cluster)) as consumer:
        consumer.assign([tp("orders")])
        await consumer.poll(100)
        cluster.move_leader("orders", 0, -1)
        await consumer.poll(1_000)
        reject_everywhere(cluster)
        began_s = now_s()
        with pytest.raises(AuthenticationFailed):
            await consumer.poll(60_000)
        assert now_s() - began_s < 5


@pytest.mark.parametrize("protocol", members.PROTOCOLS)
async def test_a_member_of_a_group_raises_it_and_reads_on_once_the_user_exists_again(protocol: str) -> None:
    async with members.cluster_with_orders(partitions=1) as (cluster, _):
        settings = {"group_id": "billing", "auto_offset_reset": "earliest", **members.PROTOCOLS[protocol]}
        async with consumer_of(cluster, **settings) as consumer:
            consumer.subscribe("orders")
            assert len(await read(consumer, members.RECORDS)) == members.RECORDS
            reject_everywhere(cluster)
            began_s = now_s()
            for _ in range(3):
                with pytest.raises(AuthenticationFailed):
                    await consumer.poll(60_000)
            assert now_s() - began_s < 15, "a heartbeat notices it, or a fetch"
            await consumer_fails_for(consumer, 60)
            for broker in cluster.brokers.values():
                broker.rejection = None
            fill(cluster, "orders", 5)
            assert len(await read_after_errors(consumer, 5)) == 5


@pytest.mark.parametrize("protocol", members.PROTOCOLS)
async def test_a_consumer_that_cannot_join_its_group_raises_it_at_once(protocol: str) -> None:
    async with members.cluster_with_orders(partitions=1) as (cluster, _):
        reject_everywhere(cluster)
        async with consumer_of(cluster, group_id="billing", **members.PROTOCOLS[protocol]) as consumer:
            consumer.subscribe("orders")
            began_s = now_s()
            with pytest.raises(AuthenticationFailed, match="refused user 'alice'"):
                await consumer.poll(60_000)
            assert now_s() - began_s < 1


async def consumer_fails_for(consumer: Consumer, seconds: float) -> None:
    """Poll for this time: longer than the session of a member."""
    until_s = now_s() + seconds
    while now_s() < until_s:
        with suppress(AuthenticationFailed):
            assert await consumer.poll() == []
        await asyncio.sleep(0.1)


async def read_after_errors(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Read records; requests that failed before the user existed again may be told first."""
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(60):
        while len(records) < count:
            with suppress(AuthenticationFailed):
                records += await consumer.poll()
    return records
