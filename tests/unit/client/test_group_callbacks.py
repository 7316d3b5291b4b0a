"""Callbacks and the end of memberships, in groups of either protocol."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from kraft.client.model.errors import ClientClosed, CommitFailed, SubscriptionConflict
from kraft.client.model.values import ConsumerRecord
from kraft.model.errors import Refusal
from kraft.model.ids import TopicPartition
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.fake_groups import FakeGroups
from tests.unit.client.clients import fill, read
from tests.unit.client.members import GROUP, PROTOCOLS, RECORDS, cluster_with_orders, member_of, reader, until


async def test_partitions_of_an_excluded_member_are_lost_and_not_committed(
    protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        lost: list[list[TopicPartition]] = []
        async with member_of(cluster, **protocol) as consumer:

            async def on_lost(partitions: list[TopicPartition]) -> None:
                with pytest.raises(CommitFailed):
                    await consumer.commit({tp("orders"): 20})
                lost.append(partitions)

            consumer.subscribe("orders", on_lost=on_lost)
            await consumer.poll(10_000, max_records=5)
            await exclude(cluster, groups)
            with pytest.raises(CommitFailed, match="offsets of orders-0 were not committed: "):
                await consumer.commit()
            assert groups.committed(GROUP, "orders") is None
            records: list[ConsumerRecord] = []
            while not lost:
                # What the poll in which they are lost returns comes after that.
                records = await consumer.poll(1_000)
            records += await read(consumer, RECORDS - len(records))
            assert lost == [[tp("orders")]]
            assert [record.offset for record in records] == list(range(RECORDS))
    assert "consumer excluded, joining again" in caplog.text


async def exclude(cluster: FakeCluster, groups: FakeGroups) -> None:
    """Let the session of the members time out: the coordinator hears nothing of them."""
    cluster.brokers[1].hangs = True
    await until(lambda: groups.members(GROUP) == 0)
    cluster.brokers[1].hangs = False


async def test_a_consumer_that_is_not_polled_leaves_and_comes_back(
    protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        events: list[str] = []
        async with member_of(cluster, max_poll_interval_ms=10_000, **protocol) as consumer:
            consumer.subscribe(
                "orders",
                on_assigned=lambda _: events.append("assigned"),
                on_revoked=lambda _: events.append("revoked"),
                on_lost=lambda _: events.append("lost"),
            )
            await consumer.poll(10_000, max_records=5)
            with caplog.at_level(logging.WARNING, "kraft.client"):
                await until(lambda: groups.members(GROUP) == 0)
            assert "not polled for max.poll.interval.ms=10000" in caplog.text
            with pytest.raises(CommitFailed):
                await consumer.commit()
            await read(consumer, RECORDS)
        assert events == ["assigned", "lost", "assigned", "revoked"]


async def test_callbacks_use_the_consumer(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        consumer = member_of(cluster, enable_auto_commit=False, **protocol)

        async def on_assigned(partitions: list[TopicPartition]) -> None:
            for partition in partitions:
                consumer.seek(partition, 15)
                assert await consumer.position(partition) == 15

        async def on_revoked(_: list[TopicPartition]) -> None:
            await consumer.commit()

        consumer.subscribe("orders", on_assigned=on_assigned, on_revoked=on_revoked)
        assert [record.offset for record in await read(consumer, 5)] == list(range(15, 20))
        await consumer.close()
        await consumer.close()
        assert groups.committed(GROUP, "orders") == RECORDS
        with pytest.raises(ClientClosed):
            await consumer.poll()


async def test_a_callback_does_not_poll(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster, **protocol) as consumer:

        async def on_assigned(_: list[TopicPartition]) -> None:
            await consumer.poll()

        consumer.subscribe("orders", on_assigned=on_assigned)
        with pytest.raises(SubscriptionConflict, match="poll: a callback of this consumer has not returned"):
            await consumer.poll(10_000)
        assert len(await read(consumer, RECORDS)) == RECORDS, "the partitions are assigned nevertheless"


async def test_an_interrupted_callback_runs_again(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster, **protocol) as consumer:
        calls: list[float] = []

        async def on_assigned(_: list[TopicPartition]) -> None:
            calls.append(asyncio.get_running_loop().time())
            await asyncio.sleep(60 if len(calls) == 1 else 0)

        consumer.subscribe("orders", on_assigned=on_assigned)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(20):
                await consumer.poll(30_000)
        assert len(await read(consumer, RECORDS)) == RECORDS
        assert len(calls) == 2


async def test_nothing_of_a_revoked_partition_is_returned_after_its_callback(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(4, records=500) as (cluster, _):
        first = member_of(cluster, 1, **protocol)
        taken: set[int] = set()
        first.subscribe(
            "orders",
            on_assigned=lambda partitions: taken.difference_update(each.partition for each in partitions),
            on_revoked=lambda partitions: taken.update(each.partition for each in partitions),
        )
        await first.poll(10_000, max_records=10)
        second = reader(cluster, 2, **protocol)
        late: list[int] = []

        async def read_on() -> None:
            # Far behind: records of every partition are fetched ahead when it is revoked.
            late.extend(each.partition for each in await first.poll(100, max_records=10) if each.partition in taken)

        while len(second.consumer.assignment()) < 2:
            await read_on()
        for _ in range(20):
            await read_on()
        assert len(taken) == 2
        assert late == []
        await first.close()
        await second.close()


async def test_polls_end_in_time_while_a_commit_before_a_revocation_does_not(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(4) as (cluster, groups):
        first = member_of(cluster, 1, **protocol)
        revoked: list[TopicPartition] = []
        first.subscribe("orders", on_revoked=revoked.extend)
        await read(first, 4 * RECORDS)
        groups.may_commit.clear()
        second = reader(cluster, 2, **protocol)
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        while now_s() - began_s < 20:
            poll_began_s = now_s()
            await first.poll(timeout_ms=100)
            assert now_s() - poll_began_s < 0.2
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await first.poll(60_000)
        assert revoked == [], "one that is interrupted leaves the revocation to the next"
        groups.may_commit.set()
        while len(second.consumer.assignment()) < 2:
            await first.poll(timeout_ms=100)
        assert groups.committed(GROUP, "orders", revoked[0].partition) == RECORDS
        await first.close()
        await second.close()
        assert second.records == []


@pytest.mark.parametrize("settings", [PROTOCOLS["consumer"], PROTOCOLS["cooperative"]], ids=["consumer", "cooperative"])
async def test_partitions_that_stay_are_read_while_a_commit_before_a_revocation_does_not_end(
    settings: dict[str, Any],
) -> None:
    async with cluster_with_orders(4) as (cluster, groups):
        first = member_of(cluster, 1, **settings)
        revoked: list[TopicPartition] = []
        first.subscribe("orders", on_revoked=revoked.extend)
        await read(first, 4 * RECORDS)
        groups.may_commit.clear()
        second = reader(cluster, 2, **settings)
        now_s = asyncio.get_running_loop().time
        late: Counter[int] = Counter()
        began_s = now_s()
        while now_s() - began_s < 20:
            late.update(record.partition for record in await first.poll(timeout_ms=100))
            if now_s() - began_s > 10 and not late:
                for number in range(4):
                    fill(cluster, "orders", RECORDS, number)
                cluster.news()
        assert list(late.values()) == [RECORDS] * 2, "those that it keeps, and none of those that it gives up"
        assert revoked == []
        groups.may_commit.set()
        while len(second.consumer.assignment()) < 2:
            late.update(record.partition for record in await first.poll(timeout_ms=100))
        assert {each.partition for each in revoked} == set(range(4)) - set(late)
        assert {groups.committed(GROUP, "orders", each.partition) for each in revoked} == {RECORDS}
        while len(second.records) < 2 * RECORDS:
            await first.poll(timeout_ms=100)
        await first.close()
        await second.close()
        assert [groups.committed(GROUP, "orders", number) for number in range(4)] == [2 * RECORDS] * 4


async def test_a_partition_is_lost_although_its_assignment_was_interrupted(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, groups), member_of(cluster, **protocol) as consumer:
        began = asyncio.Event()

        async def on_assigned(_: list[TopicPartition]) -> None:
            began.set()
            await asyncio.sleep(1_000)

        consumer.subscribe("orders", on_assigned=on_assigned)
        polling = asyncio.create_task(consumer.poll(60_000))
        await began.wait()
        polling.cancel()
        await asyncio.wait([polling])
        assert consumer.assignment() == []
        consumer.subscribe("orders")
        await exclude(cluster, groups)
        assert len(await read(consumer, RECORDS)) == RECORDS


async def test_what_is_being_assigned_may_be_committed(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, groups), member_of(cluster, **protocol) as consumer:

        async def on_assigned(partitions: list[TopicPartition]) -> None:
            consumer.seek(partitions[0], 5)
            await consumer.commit()

        consumer.subscribe("orders", on_assigned=on_assigned)
        await consumer.poll(10_000)
        assert groups.committed(GROUP, "orders") == 5


async def test_of_two_static_members_with_one_id_one_is_refused_in_each_poll(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster, group_instance_id="i", **protocol) as first:
        first.subscribe("orders")
        await read(first, RECORDS)
        async with member_of(cluster, 2, group_instance_id="i", **protocol) as second:
            second.subscribe("orders")
            # The consumer protocol refuses the second one; the classic one takes it in place of the first.
            refused = second if protocol.get("group_protocol") == "consumer" else first
            if refused is first:
                await second.poll(10_000)
            for _ in range(2):
                with pytest.raises(Refusal, match=r"^(UNRELEASED|FENCED)_INSTANCE_ID: group billing: "):
                    await refused.poll(10_000)


async def test_a_static_member_keeps_its_partitions_while_it_restarts(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(4) as (cluster, _):
        other = reader(cluster, 1, **protocol)
        async with member_of(cluster, 2, group_instance_id="i", **protocol) as consumer:
            consumer.subscribe("orders")
            await until(lambda: len(other.consumer.assignment()) == 4)
            while len(consumer.assignment()) != 2:
                await consumer.poll(100)
            before = consumer.assignment()
            events = list(other.events)
        async with member_of(cluster, 3, group_instance_id="i", **protocol) as consumer:
            consumer.subscribe("orders")
            while len(consumer.assignment()) != 2:
                await consumer.poll(100)
            assert consumer.assignment() == before
            assert other.events == events
        await other.close()


async def test_members_go_on_with_the_next_coordinator_while_the_former_one_hangs(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(4) as (cluster, groups):
        first = reader(cluster, 1, **protocol)
        await until(lambda: len(first.consumer.assignment()) == 4)
        second = reader(cluster, 2, **protocol)
        await asyncio.sleep(1)
        cluster.brokers[1].hangs = True
        began_s = asyncio.get_running_loop().time()
        groups.move_to(2)
        await until(lambda: [len(each.consumer.assignment()) for each in (first, second)] == [2, 2])
        assert asyncio.get_running_loop().time() - began_s < 60
        cluster.brokers[1].hangs = False
        await first.close()
        await second.close()


async def test_closing_ends_in_time_although_the_coordinator_hangs(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, _):
        consumer = member_of(cluster, **protocol)
        consumer.subscribe("orders")
        await read(consumer, RECORDS)
        cluster.brokers[1].hangs = True
        began_s = asyncio.get_running_loop().time()
        await consumer.close(timeout_ms=4_000)
        assert asyncio.get_running_loop().time() - began_s <= 5


async def test_a_member_whose_closing_is_interrupted_leaves_all_the_same(protocol: dict[str, Any]) -> None:
    """The coordinator hangs during the commit that comes first."""
    async with cluster_with_orders(1) as (cluster, groups):
        consumer = member_of(cluster, **protocol)
        consumer.subscribe("orders")
        await read(consumer, RECORDS)
        cluster.brokers[1].hangs = True
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0.1)
        closing.cancel()
        await asyncio.sleep(0)
        cluster.brokers[1].hangs = False
        cluster.news()
        await asyncio.wait([closing])
        assert groups.members(GROUP) == 0
        assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "group membership"] == []


async def test_seeking_to_a_timestamp_finds_the_first_record_from_then_on(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster, **protocol) as consumer:
        consumer.subscribe("orders")
        await read(consumer, RECORDS)
        # The timestamps are ten times the offsets.
        consumer.seek_to_timestamp(95, tp("orders"))
        assert [record.offset for record in await read(consumer, 10)] == list(range(10, 20))
        consumer.seek_to_timestamp(1_000_000)
        assert await consumer.position(tp("orders")) == RECORDS


async def test_paused_partitions_are_not_read(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(2) as (cluster, _), member_of(cluster, **protocol) as consumer:
        consumer.subscribe("orders")
        await read(consumer, 2 * RECORDS)
        consumer.pause(tp("orders"))
        assert consumer.paused() == [tp("orders")]
        fill(cluster, "orders", 5)
        fill(cluster, "orders", 5, 1)
        assert {record.partition for record in await read(consumer, 5)} == {1}
        assert await consumer.poll(2_000) == []
        consumer.resume(tp("orders"))
        assert {record.partition for record in await read(consumer, 5)} == {0}
