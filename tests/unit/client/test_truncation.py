"""Consumers whose partition lost records to an unclean election."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kraft.client.aio.consumer import Consumer
from kraft.client.model.errors import LogTruncated
from kraft.client.model.settings import ConsumerSettings
from kraft.client.sans_io.fetch_buffer import FetchBuffer
from kraft.log.format.record_batch import assign_offsets, build_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.fetch import FetchPartitionResult, FetchResponse
from kraft.model.ids import LeaderEpoch, Offset
from kraft.wire.schema.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.virtual_time import run_virtually
from tests.unit.client.clients import consumer_of, fill, read

ORDERS = tp("orders")


def cluster_with(records: int) -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    fill(cluster, "orders", records)
    return cluster


def lose(cluster: FakeCluster, end_offset: int, then: int = 0) -> None:
    """Broker 2 leads with what lies before `end_offset`, and `then` so many new records are written."""
    cluster.partition("orders").elect_unclean(2, end_offset)
    log = cluster.partition("orders")
    for offset in range(end_offset, end_offset + then):
        log.append(build_batch([Record(-1, offset, None, b"new %d" % offset)]))
    cluster.news()


async def has_read(cluster: FakeCluster, count: int, **settings: Any) -> Consumer:
    consumer = consumer_of(cluster, **settings)
    consumer.assign([ORDERS])
    consumer.seek(ORDERS, 0)
    await read(consumer, count)
    return consumer


def checks(cluster: FakeCluster) -> int:
    return sum(call.endswith("offset_for_leader_epoch") for call in cluster.calls)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
@pytest.mark.parametrize("then", [0, 3, 100])
def test_a_truncated_log_is_read_on_from_where_it_differs(
    policy: str, then: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The new log may be shorter than the position, or long enough to hide that its records differ."""

    async def scenario() -> None:
        cluster = cluster_with(50)
        async with await has_read(cluster, 50, auto_offset_reset=policy) as consumer:
            lose(cluster, 30, then)
            if then == 0:
                await consumer.poll(timeout_ms=5_000)
            again = await read(consumer, then) if then else []
            assert [record.value for record in again] == [b"new %d" % offset for offset in range(30, 30 + then)]
            assert await consumer.position(ORDERS) == 30 + then

    with caplog.at_level(logging.WARNING, "kraft.client"):
        run_virtually(scenario())
    (warning,) = caplog.messages
    assert "orders-0: the log was truncated to offset 30, and offsets 30 to 49" in warning
    assert "continues at offset 30" in warning


@pytest.mark.parametrize("then", [0, 3, 100])
async def test_without_a_policy_poll_names_what_was_lost_until_the_consumer_is_sought_elsewhere(then: int) -> None:
    cluster = cluster_with(50)
    async with await has_read(cluster, 50, auto_offset_reset="none") as consumer:
        lose(cluster, 30, then)
        with pytest.raises(LogTruncated, match=r"offsets 30 to 49.*seek") as raised:
            await consumer.poll(timeout_ms=5_000)
        error = raised.value
        assert (error.partition, error.position, error.divergent_offset) == (ORDERS, 50, 30)
        assert error.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(LogTruncated):
            await consumer.poll(timeout_ms=5_000)
        consumer.seek(ORDERS, error.divergent_offset or 0)
        fill(cluster, "orders", 5)
        assert (await read(consumer, then + 5))[0].offset == 30


def test_records_only_fetched_ahead_are_fetched_again_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        cluster = cluster_with(50)
        consumer = consumer_of(cluster, auto_offset_reset="none", max_poll_records=5)
        consumer.assign([ORDERS])
        consumer.seek(ORDERS, 0)
        async with consumer:
            first = await read(consumer, 20)
            lose(cluster, 30, then=10)
            async with asyncio.timeout(60):
                # Until the consumer has noticed, it hands out what the former leader sent.
                while not checks(cluster):  # noqa: ASYNC110  The fake counts; it tells nobody.
                    await asyncio.sleep(0.05)
                await asyncio.sleep(0.05)
            rest = await read(consumer, 20)
            values = [record.value for record in first + rest]
            assert values == [b"%d" % offset for offset in range(30)] + [b"new %d" % each for each in range(30, 40)]

    with caplog.at_level(logging.WARNING, "kraft.client"):
        run_virtually(scenario())
    assert caplog.messages == []


async def test_a_clean_election_costs_one_question_and_nothing_else() -> None:
    cluster = cluster_with(50)
    async with await has_read(cluster, 50, auto_offset_reset="none") as consumer:
        for leader_id in (2, 3):
            cluster.move_leader("orders", 0, leader_id)
            fill(cluster, "orders", 10)
            await read(consumer, 10)
        assert await consumer.position(ORDERS) == 70
    assert checks(cluster) == 2


async def test_a_place_that_was_looked_up_is_checked_before_anything_was_read_there() -> None:
    """A consumer begins at the end by default. Records that another leader writes there are not its next ones."""
    cluster = cluster_with(50)
    async with consumer_of(cluster) as consumer:
        consumer.assign([ORDERS])
        assert await consumer.position(ORDERS) == 50
        lose(cluster, 30, then=40)
        records = await read(consumer, 40)
    assert [record.offset for record in records] == list(range(30, 70))


def test_a_leader_without_any_of_what_was_read_makes_the_reset_policy_decide(caplog: pytest.LogCaptureFixture) -> None:
    """It answers -1 for an epoch later than all that it knows of."""

    async def scenario(policy: str, then: list[int]) -> None:
        cluster = cluster_with(50)
        partition = cluster.partition("orders")
        async with await has_read(cluster, 50, auto_offset_reset=policy) as consumer:
            partition.epoch_end = lambda epoch: (-1, -1)  # type: ignore[method-assign]  # The fake answers so.
            lose(cluster, 30, then=5)
            if policy == "none":
                with pytest.raises(LogTruncated, match="none of what was read up to offset 50"):
                    await read(consumer, 1)
            elif then:
                assert [record.offset for record in await read(consumer, len(then))] == then
            else:
                assert await consumer.poll(timeout_ms=5_000) == []
                assert await consumer.position(ORDERS) == 35

    with caplog.at_level(logging.WARNING, "kraft.client"):
        run_virtually(scenario("earliest", [*range(30), *range(30, 35)]))
        run_virtually(scenario("latest", []))
    assert [message.rpartition("; ")[2] for message in caplog.messages] == [
        "reading continues at the earliest offset",
        "reading continues at the latest offset",
    ]
    run_virtually(scenario("none", []))


async def test_a_question_that_gets_no_answer_is_asked_again() -> None:
    cluster = cluster_with(50)
    async with await has_read(cluster, 50, auto_offset_reset="none") as consumer:
        cluster.brokers[2].hangs = True
        lose(cluster, 50)
        await consumer.poll(timeout_ms=10_000)
        assert checks(cluster) >= 1
        cluster.brokers[2].hangs = False
        fill(cluster, "orders", 10)
        assert [record.offset for record in await read(consumer, 10)] == list(range(50, 60))


async def test_a_broker_that_cannot_tell_is_read_from_all_the_same() -> None:
    cluster = cluster_with(50)
    cluster.brokers[2].is_of_earlier_version = True
    async with await has_read(cluster, 50, auto_offset_reset="none") as consumer:
        cluster.move_leader("orders", 0, 2)
        fill(cluster, "orders", 10)
        assert [record.offset for record in await read(consumer, 10)] == list(range(50, 60))
    assert checks(cluster) == 1


async def test_a_second_election_while_the_question_is_under_way_asks_the_next_leader() -> None:
    cluster = cluster_with(50)
    async with await has_read(cluster, 50, auto_offset_reset="latest") as consumer:
        cluster.brokers[2].hangs = True
        lose(cluster, 40)
        await consumer.poll(timeout_ms=1_000)
        cluster.partition("orders").elect_unclean(3, 30)
        fill(cluster, "orders", 30)
        assert [record.offset for record in await read(consumer, 30)] == list(range(30, 60))


async def test_a_range_that_was_truncated_while_it_was_read_is_an_error() -> None:
    cluster = cluster_with(100)
    async with consumer_of(cluster, fetch_max_bytes=1, max_partition_fetch_bytes=1) as consumer:
        columns = consumer.read_columns(ORDERS, 0, 100)
        first = [await anext(columns) for _ in range(4)]
        assert first[-1].next_offset == 40
        lose(cluster, 20, then=200)
        with pytest.raises(LogTruncated, match="offsets 20 to"):
            async for _ in columns:
                pass


def test_what_a_former_leader_answers_after_the_next_one_was_asked_does_not_count() -> None:
    buffer = FetchBuffer(ConsumerSettings(bootstrap_servers=("any:1",)), lambda: 0.5)
    buffer.assign([ORDERS])
    buffer.seek(ORDERS, 0)
    first = buffer.next_request("former", {ORDERS: 4}, 0)
    assert first is not None
    buffer.answered(first, answer_with(4, 0, b"0"), 0)
    late = buffer.next_request("former", {ORDERS: 4}, 0)
    assert late is not None
    assert buffer.next_request("next", {ORDERS: 5}, 0) is None
    check = buffer.next_check("next", {ORDERS: 5}, 0)
    assert check is not None
    (asked,) = check.request.topics
    assert [(each.leader_epoch, each.current_leader_epoch) for each in asked.partitions] == [(4, 5)]
    there = EpochEndOffset(partition=0, error_code=ErrorCode.NONE, leader_epoch=4, end_offset=1)
    topic = OffsetForLeaderTopicResult(topic="orders", partitions=(there,))
    buffer.checked(check, OffsetForLeaderEpochResponse(topics=(topic,)), 0)
    buffer.answered(late, answer_with(4, 1, b"never committed"), 0)
    assert buffer.state(ORDERS).fetch_offset == 1
    assert buffer.next_request("next", {ORDERS: 5}, 0) is not None


def test_a_check_does_not_count_once_the_consumer_reads_elsewhere() -> None:
    buffer = FetchBuffer(ConsumerSettings(bootstrap_servers=("any:1",), auto_offset_reset="none"), lambda: 0.5)
    buffer.assign([ORDERS])
    buffer.seek(ORDERS, 0)
    first = buffer.next_request("former", {ORDERS: 4}, 0)
    assert first is not None
    buffer.answered(first, answer_with(4, 0, b"0"), 0)
    check = buffer.next_check("next", {ORDERS: 5}, 0)
    assert check is not None
    buffer.seek(ORDERS, 7)
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "no such epoch")
    buffer.check_refused(check, refusal, 0)
    assert buffer.state(ORDERS).error is None


def answer_with(leader_epoch: int, offset: int, value: bytes) -> FetchResponse:
    batch = bytearray(build_batch([Record(-1, 0, None, value)]))
    assign_offsets(batch, 0, Offset(offset), LeaderEpoch(leader_epoch))
    result = FetchPartitionResult(
        topic="orders", partition=0, error_code=ErrorCode.NONE, high_watermark=offset + 1, records=bytes(batch)
    )
    return FetchResponse(request_id=0, partitions=[result])
