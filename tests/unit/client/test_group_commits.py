"""What members of a group commit, when, and what is refused."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any

import pytest

from kraft.client.model.errors import CommitFailed, SubscriptionConflict
from kraft.client.model.values import OffsetAndMetadata
from kraft.coordinator.groups.commands import CommitOffsets
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.fake_groups import FakeGroups
from tests.unit.client.clients import consumer_of, fill, read
from tests.unit.client.members import GROUP, PROTOCOLS, RECORDS, cluster_with_orders, member_of, place, reader, until


def commits(groups: FakeGroups) -> list[dict[str, int]]:
    """Return the offsets of each OffsetCommit, by partition."""
    return [
        {
            f"{topic.name}-{each.partition_index}": each.committed_offset
            for topic in command.topics
            for each in topic.partitions
        }
        for command in groups.commands
        if isinstance(command, CommitOffsets)
    ]


async def test_offsets_are_committed_with_metadata_and_leader_epoch() -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster, enable_auto_commit=False) as consumer:
        consumer.subscribe("orders")
        await read(consumer, RECORDS)
        await consumer.commit({tp("orders"): OffsetAndMetadata(5, "half")})
        assert await consumer.committed([tp("orders")]) == {tp("orders"): OffsetAndMetadata(5, "half", -1)}
        await consumer.commit({tp("orders"): 6})
        assert await consumer.committed([tp("orders")]) == {tp("orders"): OffsetAndMetadata(6)}
        await consumer.commit()
        assert await consumer.committed([tp("orders")]) == {tp("orders"): OffsetAndMetadata(RECORDS, "", 0)}


async def test_a_consumer_without_automatic_commits_commits_nothing_by_itself() -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        async with member_of(cluster, enable_auto_commit=False) as consumer:
            consumer.subscribe("orders")
            await read(consumer, RECORDS)
            await consumer.poll(20_000)
        assert commits(groups) == []


async def test_polls_commit_what_earlier_polls_returned() -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        async with member_of(cluster, auto_commit_interval_ms=1_000) as consumer:
            consumer.subscribe("orders")
            await consumer.poll(10_000, max_records=5)
            await asyncio.sleep(2)
            assert commits(groups) == []
            await consumer.poll(10_000, max_records=5)
            await asyncio.sleep(0.1)
            assert commits(groups) == [{"orders-0": 5}]
            await consumer.poll(10_000, max_records=5)
            await asyncio.sleep(0.1)
            assert commits(groups) == [{"orders-0": 5}], "the interval has not passed"
        assert commits(groups) == [{"orders-0": 5}, {"orders-0": 15}]


async def test_after_an_error_in_the_block_the_last_poll_counts_as_not_processed() -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        with suppress(ZeroDivisionError):
            async with member_of(cluster) as consumer:
                consumer.subscribe("orders")
                await consumer.poll(10_000, max_records=5)
                await consumer.poll(10_000, max_records=5)
                raise ZeroDivisionError
        assert groups.committed(GROUP, "orders") == 5


async def test_an_iteration_commits_what_it_has_yielded() -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        async with member_of(cluster) as consumer:
            consumer.subscribe("orders")
            async for record in consumer:
                if record.offset == 3:
                    assert await consumer.position(tp("orders")) == 4
                    break
        assert groups.committed(GROUP, "orders") == 4
        with suppress(ZeroDivisionError):
            async with member_of(cluster, 2) as consumer:
                consumer.subscribe("orders")
                async for record in consumer:
                    if record.offset == 9:
                        raise ZeroDivisionError
        assert groups.committed(GROUP, "orders") == 9


async def test_a_poll_after_an_iteration_that_was_left_waits_for_no_fetch_in_flight() -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster, fetch_max_wait_ms=60_000) as consumer:
        consumer.subscribe("orders")
        async for record in consumer:
            assert record.offset == 0
            break
        # The next fetch waits at the leader for records after the last one.
        await asyncio.sleep(5)
        assert [each.offset for each in await consumer.poll(1_000)] == list(range(1, RECORDS))


async def test_a_consumer_that_unsubscribes_in_an_iteration_reads_on_elsewhere() -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster) as consumer:
        place(cluster, "invoices", 1)
        fill(cluster, "invoices", 5)
        consumer.subscribe("orders")
        async for record in consumer:
            assert record.offset == 0
            break
        await consumer.unsubscribe()
        consumer.subscribe("invoices")
        assert [(each.topic, each.offset) for each in await read(consumer, 5)] == [("invoices", n) for n in range(5)]


async def test_a_consumer_that_has_unsubscribed_knows_nothing_of_what_it_has_read() -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        consumer = member_of(cluster)
        consumer.subscribe("orders")
        async for record in consumer:
            if record.offset == 4:
                break
        await consumer.unsubscribe()
        assert groups.committed(GROUP, "orders") == 5
        # Another program reads on.
        async with member_of(cluster, 2) as other:
            other.assign([tp("orders")])
            await read(other, RECORDS - 5)
        consumer.assign([tp("orders")])
        assert await consumer.position(tp("orders")) == RECORDS
        assert await consumer.poll(1_000) == []
        await consumer.close(only_processed=True)
        assert groups.committed(GROUP, "orders") == RECORDS


async def test_a_poll_continues_where_an_iteration_was_left() -> None:
    async with cluster_with_orders(2) as (cluster, _), member_of(cluster, consumer_timeout_ms=1_000) as consumer:
        consumer.subscribe("orders")
        seen = []
        async for record in consumer:
            seen.append(record)
            if len(seen) == 7:
                break
        seen += await consumer.poll(10_000, max_records=4)
        async for record in consumer:
            seen.append(record)
        assert [len({each.offset for each in seen if each.partition == number}) for number in (0, 1)] == [RECORDS] * 2
        assert len(seen) == 2 * RECORDS


async def test_commits_in_the_background_keep_their_order() -> None:
    async with cluster_with_orders(1) as (cluster, groups), member_of(cluster, enable_auto_commit=False) as consumer:
        consumer.subscribe("orders")
        await read(consumer, RECORDS)
        ended: list[Any] = []
        for offset in (3, 4):
            consumer.commit_async({tp("orders"): offset}, lambda offsets, error: ended.append((offsets, error)))
        await consumer.commit({tp("orders"): 5})
        assert commits(groups) == [{"orders-0": 3}, {"orders-0": 4}, {"orders-0": 5}]
        assert ended == [({tp("orders"): OffsetAndMetadata(offset)}, None) for offset in (3, 4)]


async def test_closing_waits_for_commits_in_the_background() -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        async with member_of(cluster, enable_auto_commit=False) as consumer:
            consumer.subscribe("orders")
            await read(consumer, RECORDS)
            consumer.commit_async()
        assert groups.committed(GROUP, "orders") == RECORDS


async def test_a_commit_finds_the_coordinator_where_it_has_moved() -> None:
    async with cluster_with_orders(1) as (cluster, groups), member_of(cluster) as consumer:
        consumer.subscribe("orders")
        await read(consumer, RECORDS)
        groups.move_to(2)
        await consumer.commit({tp("orders"): 5})
        cluster.brokers[2].kill()
        groups.move_to(3)
        await consumer.commit({tp("orders"): 6})
        assert groups.committed(GROUP, "orders") == 6


async def test_a_commit_that_does_not_end_says_why() -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster, enable_auto_commit=False) as consumer:
        consumer.subscribe("orders")
        await read(consumer, RECORDS)
        cluster.brokers[1].hangs = True
        consumer.commit_async()
        with pytest.raises(Refusal, match="an earlier commit did not end in time"):
            await consumer.commit(timeout_ms=100)
        cluster.brokers[1].hangs = False


async def test_an_offset_of_a_partition_that_does_not_exist_is_refused() -> None:
    async with cluster_with_orders(1) as (cluster, groups), consumer_of(cluster, group_id=GROUP) as consumer:
        with pytest.raises(Refusal, match=r"the offset of orders-7 was not committed: there is no such") as raised:
            await consumer.commit({tp("orders", 7): 5, tp("orders"): 3})
        assert raised.value.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert groups.committed(GROUP, "orders") == 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_member_that_reads_nothing_keeps_the_committed_leader_epoch(protocol: str) -> None:
    async with cluster_with_orders(1) as (cluster, _):
        for number in (1, 2):
            async with member_of(cluster, number, **PROTOCOLS[protocol]) as consumer:
                consumer.subscribe("orders")
                if number == 1:
                    await read(consumer, RECORDS)
                while not consumer.assignment():
                    assert await consumer.poll(1_000) == []
                assert await consumer.position(tp("orders")) == RECORDS
        async with consumer_of(cluster, group_id=GROUP) as consumer:
            assert await consumer.committed([tp("orders")]) == {tp("orders"): OffsetAndMetadata(RECORDS, "", 0)}


@pytest.mark.parametrize(
    "offset",
    [-1, "x", True, 2**63, None, 1.5, OffsetAndMetadata(-5), OffsetAndMetadata(5, leader_epoch=-2)],
)
async def test_a_number_that_is_not_an_offset_is_refused(offset: Any) -> None:
    async with cluster_with_orders(1) as (cluster, groups), consumer_of(cluster, group_id=GROUP) as consumer:
        for commit in (consumer.commit, consumer.commit_async):
            with pytest.raises(ValueError, match=r"^orders-0: .* is not a"):
                await commit({tp("orders"): offset})
        with pytest.raises(ValueError, match=r"^orders-0: the metadata b'x' is not text$"):
            await consumer.commit({tp("orders"): OffsetAndMetadata(5, b"x")})  # type: ignore[arg-type]  # It is refused.
        assert commits(groups) == []


# --- who may commit --------------------------------------------------------------------------------------------------


async def test_offsets_of_partitions_of_others_are_refused() -> None:
    async with cluster_with_orders(2) as (cluster, groups):
        members = [reader(cluster, number, enable_auto_commit=False) for number in (1, 2)]
        await until(lambda: [len(each.consumer.assignment()) for each in members] == [1, 1])
        (other,) = members[1].consumer.assignment()
        with pytest.raises(CommitFailed, match=f"offsets of {other} were not committed: they are not assigned"):
            await members[0].consumer.commit({other: 5})
        for each in members:
            await each.close()
        assert groups.committed(GROUP, "orders", other.partition) is None


async def test_a_commit_ends_when_its_partition_is_taken_away_even_if_it_comes_back(protocol: dict[str, Any]) -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        place(cluster, "returns", 1)
        member = reader(cluster, enable_auto_commit=False, **protocol)
        await until(lambda: len(member.records) == RECORDS)
        ended: list[Exception | None] = []
        groups.may_commit.clear()
        member.consumer.commit_async({tp("orders"): 5}, lambda _, error: ended.append(error))
        await until(lambda: len(commits(groups)) == 1)
        member.subscribe("returns")
        await until(lambda: member.consumer.assignment() == [tp("returns")])
        member.subscribe("orders")
        await until(lambda: member.consumer.assignment() == [tp("orders")])
        groups.may_commit.set()
        await until(lambda: bool(ended))
        await member.close()
        assert isinstance(ended[0], CommitFailed)
        assert groups.committed(GROUP, "orders") is None


async def test_a_commit_in_the_background_for_a_partition_of_others_is_not_retried() -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster, enable_auto_commit=False) as consumer:
        consumer.subscribe("orders")
        await read(consumer, RECORDS)
        ended: list[Exception | None] = []
        consumer.commit_async({tp("orders", 7): 5}, lambda _, error: ended.append(error))
        await asyncio.sleep(0.01)
        assert [type(error) for error in ended] == [CommitFailed]


async def test_a_commit_begun_by_the_last_callback_is_not_sent_after_the_member_has_left() -> None:
    async with cluster_with_orders(1) as (cluster, groups), member_of(cluster, enable_auto_commit=False) as consumer:
        ended: list[Exception | None] = []

        def revoked(_: object) -> None:
            consumer.commit_async({tp("orders"): 5}, lambda _, error: ended.append(error))

        groups.may_commit.clear()
        consumer.subscribe("orders", on_revoked=revoked)
        await read(consumer, RECORDS)
        await consumer.unsubscribe()
        groups.may_commit.set()
        await until(lambda: bool(ended))
        assert isinstance(ended[0], CommitFailed)
        assert groups.committed(GROUP, "orders") is None


async def test_a_consumer_that_has_not_joined_commits_nothing() -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster) as consumer:
        consumer.subscribe("orders")
        with pytest.raises(CommitFailed, match="has not joined the group yet; poll first"):
            await consumer.commit({tp("orders"): 5})
        await consumer.commit()


@pytest.mark.parametrize(("name", "is_member"), [("consumer", True), ("cooperative", False)])
async def test_where_to_start_is_asked_as_a_member_of_the_consumer_protocol(
    name: str, is_member: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_with_orders(1) as (cluster, groups):
        asked: list[OffsetFetchRequestGroup] = []
        answer = groups.answer

        async def noted(broker_id: int, call: str, request: Any) -> Any:
            if isinstance(request, OffsetFetchRequest):
                asked.extend(request.groups)
            return await answer(broker_id, call, request)

        monkeypatch.setattr(groups, "answer", noted)
        async with member_of(cluster, **PROTOCOLS[name]) as consumer:
            consumer.subscribe("orders")
            await read(consumer, RECORDS)
        assert [(each.member_id is not None, each.member_epoch > 0) for each in asked] == [(is_member, is_member)]


# --- without subscriptions -------------------------------------------------------------------------------------------


async def test_an_assigned_consumer_with_a_group_starts_at_its_committed_offsets() -> None:
    async with cluster_with_orders(2) as (cluster, groups):
        async with member_of(cluster) as consumer:
            consumer.assign([tp("orders")])
            await consumer.poll(10_000, max_records=5)
        assert groups.committed(GROUP, "orders") == 5
        async with member_of(cluster, 2, auto_offset_reset="latest") as consumer:
            consumer.assign([tp("orders"), tp("orders", 1)])
            assert [await consumer.position(tp("orders", number)) for number in (0, 1)] == [5, RECORDS]


async def test_without_a_committed_offset_the_reset_policy_decides() -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster, auto_offset_reset="none") as consumer:
        consumer.subscribe("orders")
        with pytest.raises(Refusal, match="orders-0 has no committed offset"):
            await consumer.poll(10_000)


async def test_assign_and_subscribe_exclude_each_other() -> None:
    async with cluster_with_orders(1) as (cluster, _), member_of(cluster) as consumer:
        consumer.assign([tp("orders")])
        with pytest.raises(SubscriptionConflict, match="subscribe: the consumer was assigned partitions"):
            consumer.subscribe("orders")
        await consumer.unsubscribe()
        consumer.subscribe("orders")
        with pytest.raises(SubscriptionConflict, match="assign: the consumer is subscribed"):
            consumer.assign([tp("orders")])
        await read(consumer, RECORDS)
        await consumer.unsubscribe()
        assert (consumer.assignment(), consumer.subscription()) == ([], [])
        consumer.assign([tp("orders")])


async def test_groups_need_a_group_id() -> None:
    async with consumer_of(FakeCluster()) as consumer:
        with pytest.raises(SubscriptionConflict, match=r"subscribe: the consumer has no group; give group\.id"):
            consumer.subscribe("orders")
        with pytest.raises(SubscriptionConflict, match="commit: the consumer has no group"):
            await consumer.commit()
        with pytest.raises(SubscriptionConflict, match="committed: the consumer has no group"):
            await consumer.committed([tp("orders")])


@pytest.mark.parametrize(
    ("topics", "pattern"),
    [((), None), ((), ""), (["orders", ""], None), ([1], None), (b"orders", None), ((), re.compile(b"o.*")), ((), 5)],
)
async def test_a_subscription_names_something(topics: Any, pattern: Any) -> None:
    async with member_of(FakeCluster()) as consumer:
        with pytest.raises(ValueError, match=r"^subscribe: "):
            consumer.subscribe(topics, pattern=pattern)
