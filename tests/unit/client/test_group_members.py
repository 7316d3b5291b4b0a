"""Consumers that share the partitions of a topic in a group, of either protocol."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.unit.client.clients import fill, read
from tests.unit.client.members import (
    GROUP,
    PROTOCOLS,
    RECORDS,
    Reader,
    cluster_with_orders,
    grow,
    member_of,
    place,
    reader,
    until,
)


def reads(*readers: Reader) -> Counter[tuple[int, int]]:
    """Return how many times each record, by partition and offset, was returned."""
    return Counter((record.partition, record.offset) for each in readers for record in each.records)


def everything(partitions: int = 4, records: int = RECORDS) -> set[tuple[int, int]]:
    return {(partition, offset) for partition in range(partitions) for offset in range(records)}


def owned(*readers: Reader) -> list[list[int]]:
    return [sorted(each.partition for each in reader.consumer.assignment()) for reader in readers]


async def test_a_lone_member_reads_every_partition(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders() as (cluster, groups), member_of(cluster, **protocol) as consumer:
        consumer.subscribe(["orders"])
        assert consumer.assignment() == []
        records = await read(consumer, 4 * RECORDS)
        assert {(record.partition, record.offset) for record in records} == everything()
        assert consumer.assignment() == [tp("orders", number) for number in range(4)]
        assert consumer.subscription() == ["orders"]
        await consumer.commit()
        assert [groups.committed(GROUP, "orders", number) for number in range(4)] == [RECORDS] * 4
        committed = await consumer.committed([tp("orders"), tp("returns")])
        assert {each: found and found.offset for each, found in committed.items()} == {
            tp("orders"): RECORDS,
            tp("returns"): None,
        }
        assert consumer.lag(tp("orders")) == 0


async def test_members_share_the_partitions_and_read_each_record_once(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders() as (cluster, _):
        first = reader(cluster, 1, commits=True, **protocol)
        await until(lambda: len(first.records) == 4 * RECORDS)
        second = reader(cluster, 2, commits=True, **protocol)
        await until(lambda: sorted(map(len, owned(first, second))) == [2, 2])
        for number in range(4):
            fill(cluster, "orders", 10, number)
        await until(lambda: reads(first, second).total() >= 4 * (RECORDS + 10))
        await first.close()
        await until(lambda: len(owned(second)[0]) == 4)
        await second.close()
        counts = reads(first, second)
        assert set(counts) == everything(records=RECORDS + 10)
        assert set(counts.values()) == {1}


async def test_a_member_beyond_the_number_of_partitions_is_idle_until_another_leaves(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(2) as (cluster, _):
        members = [reader(cluster, number, commits=True, **protocol) for number in range(1, 4)]
        await until(lambda: sorted(map(len, owned(*members))) == [0, 1, 1])
        (idle,) = (each for each in members if not each.consumer.assignment())
        before = len(idle.records)
        for number in range(2):
            fill(cluster, "orders", 10, number)
        await until(lambda: set(reads(*members)) == everything(2, RECORDS + 10))
        assert len(idle.records) == before
        leaving = next(each for each in members if each is not idle)
        await leaving.close()
        staying = [each for each in members if each is not leaving]
        await until(lambda: list(map(len, owned(*staying))) == [1, 1])
        for each in staying:
            await each.close()


@pytest.mark.parametrize("protocol", [PROTOCOLS["consumer"], PROTOCOLS["cooperative"]])
async def test_partitions_that_stay_are_not_revoked(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders() as (cluster, _):
        first = reader(cluster, 1, **protocol)
        await until(lambda: len(owned(first)[0]) == 4)
        second = reader(cluster, 2, **protocol)
        await until(lambda: len(owned(second)[0]) == 2)
        await first.close()
        await until(lambda: len(owned(second)[0]) == 4)
        await second.close()
        moved = [partitions for event, partitions in first.events if event == "revoked"]
        assert [len(partitions) for partitions in moved] == [2, 2]
        assert [(event, len(partitions)) for event, partitions in second.events] == [
            ("assigned", 2),
            ("assigned", 2),
            ("revoked", 4),
        ]


async def test_reading_continues_after_the_committed_offset(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        async with member_of(cluster, 1, **protocol) as consumer:
            consumer.subscribe(["orders"])
            await consumer.poll(10_000, max_records=7)
        assert groups.committed(GROUP, "orders") == 7
        async with member_of(cluster, 2, auto_offset_reset="none", **protocol) as consumer:
            consumer.subscribe(["orders"])
            assert [record.offset for record in await read(consumer, 13)] == list(range(7, 20))


async def test_a_topic_that_grows_is_read_whole(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders() as (cluster, _):
        member = reader(cluster, metadata_max_age_ms=5_000, **protocol)
        await until(lambda: len(member.records) == 4 * RECORDS)
        fill(cluster, "orders", 5, grow(cluster, "orders"))
        await until(lambda: len(member.records) == 4 * RECORDS + 5)
        await member.close()
        assert tp("orders", 4) in member.events[-2][1]


async def test_a_pattern_subscribes_to_topics_of_the_future(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, _):
        member = Reader(member_of(cluster, **protocol))
        member.subscribe(pattern="ord.*|returns")
        await until(lambda: len(member.records) == RECORDS)
        assert member.consumer.assignment() == [tp("orders")]
        await member.close()


async def test_another_subscription_replaces_the_first(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, _):
        place(cluster, "returns", 1)
        fill(cluster, "returns", 3)
        member = reader(cluster, **protocol)
        await until(lambda: len(member.records) == RECORDS)
        member.subscribe("returns")
        await until(lambda: len(member.records) == RECORDS + 3)
        assert member.consumer.assignment() == [tp("returns")]
        await member.close()
        expected: list[tuple[str, list[TopicPartition]]] = [
            ("assigned", [tp("orders")]),
            ("revoked", [tp("orders")]),
            ("assigned", [tp("returns")]),
            ("revoked", [tp("returns")]),
        ]
        assert member.events == expected


async def test_a_subscription_to_a_name_that_no_topic_can_have_is_refused() -> None:
    async with member_of(FakeCluster()) as consumer:
        with pytest.raises(Refusal, match="topic name 'a b'") as caught:
            consumer.subscribe(["orders", "a b"])
        assert caught.value.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert consumer.subscription() == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_missing_topic_is_logged_once_and_read_when_it_is_created(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    warning = "group billing: topic 'ordrs' does not exist; it will be read once it is created"
    async with cluster_with_orders(1) as (cluster, _):
        settings = {"metadata_max_age_ms": 5_000, **PROTOCOLS[protocol]}
        async with member_of(cluster, **settings) as consumer:
            consumer.subscribe(["orders", "ordrs"])
            for _ in range(30):
                await consumer.poll(1_000)
            assert [each.message for each in caplog.records] == [warning]
            place(cluster, "ordrs", 1)
            while tp("ordrs") not in consumer.assignment():
                await consumer.poll(1_000)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_topic_without_the_right_to_it_is_told_and_the_others_are_read(protocol: str) -> None:
    async with cluster_with_orders(1) as (cluster, _):
        cluster.refused_topics = {"secret"}
        settings = {"auto_offset_reset": "earliest", **PROTOCOLS[protocol]}
        async with member_of(cluster, **settings) as consumer:
            consumer.subscribe(["orders", "secret"])
            with pytest.raises(Refusal, match="group billing: topic 'secret'") as told:
                await consumer.poll(60_000)
            assert told.value.error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            while tp("orders") not in consumer.assignment():
                await consumer.poll(1_000)


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_consumer_that_never_reached_a_broker_closes_at_once(protocol: dict[str, Any], *, hangs: bool) -> None:
    async with cluster_with_orders() as (cluster, _):
        for broker in cluster.brokers.values():
            broker.is_up = broker.hangs = hangs
        consumer = member_of(cluster, **protocol)
        consumer.subscribe("orders")
        assert await consumer.poll(300) == []
        clock = asyncio.get_running_loop()
        began_s = clock.time()
        await consumer.close()
        assert clock.time() - began_s < 0.1, "there is no group to leave"


async def test_a_member_whose_first_heartbeat_is_under_way_leaves(protocol: dict[str, Any]) -> None:
    """The coordinator may have it already, and would wait for its session to end."""
    async with cluster_with_orders() as (cluster, groups):
        consumer = member_of(cluster, **protocol)
        consumer.subscribe("orders")
        assert await consumer.poll(0) == []
        await consumer.close()
        async with member_of(cluster, 2, **protocol) as next_member:
            next_member.subscribe("orders")
            began_s = asyncio.get_running_loop().time()
            assert len(await read(next_member, 4 * RECORDS)) == 4 * RECORDS
            assert asyncio.get_running_loop().time() - began_s < 10, "the group waited for the member that has left"
        assert groups.committed(GROUP, "orders", 0) == RECORDS
