from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from kraft.client.aio.consumer import Consumer
from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.client.model.errors import ClientClosed, SubscriptionConflict
from kraft.log.format.record_batch import read_header, rebuild_batch
from kraft.log.format.record_codec import RecordColumns
from kraft.model.errors import ErrorCode, Refusal
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.fake_partition import all_values
from tests.unit.client.clients import consumer_of, fill, read


@asynccontextmanager
async def consumer_of_orders() -> AsyncIterator[tuple[FakeCluster, Consumer]]:
    """Reads the ten records of `orders`, led by broker 1, from the beginning."""
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    fill(cluster, "orders", 10)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders")])
        yield cluster, consumer


async def test_everything_is_read_from_the_beginning_in_order() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=3)
    for number in range(3):
        fill(cluster, "orders", 100, number)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders", number) for number in range(3)])
        records = await read(consumer, 300)
        for number in range(3):
            offsets = [record.offset for record in records if record.partition == number]
            assert offsets == list(range(100))
            assert await consumer.position(tp("orders", number)) == 100
        assert await consumer.poll(timeout_ms=100) == []
    assert (records[0].key, records[0].value, records[0].timestamp_ms) == (b"key", b"0", 0)


async def test_by_default_only_what_comes_later_is_read() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    fill(cluster, "orders", 10)
    async with consumer_of(cluster) as consumer:
        consumer.assign([tp("orders")])
        assert await consumer.position(tp("orders")) == 10
        fill(cluster, "orders", 5)
        assert [record.offset for record in await read(consumer, 5)] == list(range(10, 15))


async def test_a_seek_into_the_middle_of_a_batch_begins_exactly_there() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    fill(cluster, "orders", 30)
    async with consumer_of(cluster) as consumer:
        consumer.assign([tp("orders")])
        consumer.seek(tp("orders"), 17)
        assert [record.offset for record in await read(consumer, 13)] == list(range(17, 30))
        consumer.seek_to_beginning()
        assert (await read(consumer, 30))[0].offset == 0
        consumer.seek_to_end(tp("orders"))
        assert await consumer.position(tp("orders")) == 30


async def test_a_poll_returns_at_most_max_records_and_loses_nothing() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    fill(cluster, "orders", 25)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders")])
        sizes: list[int] = []
        offsets: list[int] = []
        while len(offsets) < 25:
            polled = await consumer.poll(max_records=4)
            sizes.append(len(polled))
            offsets += [record.offset for record in polled]
            assert await consumer.position(tp("orders")) == offsets[-1] + 1
    assert sizes == [4, 4, 4, 4, 4, 4, 1]
    assert offsets == list(range(25))


async def test_the_bounds_of_a_fetch_are_the_consumers_settings() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    fill(cluster, "orders", 1)
    settings = {"fetch.min.bytes": 7, "fetch.max.wait.ms": 70, "max.partition.fetch.bytes": 7_000}
    async with consumer_of(cluster, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign([tp("orders")])
        await read(consumer, 1)
    request = cluster.brokers[1].fetched[0]
    assert (request.min_bytes, request.max_wait_ms) == (7, 70)
    assert [each.partition_max_bytes for each in request.partitions] == [7_000]


async def test_a_busy_partition_does_not_keep_the_others_waiting() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders", partitions=2)
    fill(cluster, "orders", 1_000, 0)
    fill(cluster, "orders", 10, 1)
    async with consumer_of(cluster, auto_offset_reset="earliest", max_poll_records=10) as consumer:
        consumer.assign([tp("orders", 0), tp("orders", 1)])
        polled = [await consumer.poll() for _ in range(3)]
    assert {record.partition for records in polled for record in records} == {0, 1}


async def test_columns_come_batch_by_batch() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    fill(cluster, "orders", 20)
    async with consumer_of(cluster) as consumer:
        consumer.assign([tp("orders")])
        consumer.seek(tp("orders"), 5)
        parts = await consumer.poll_batches()
    assert [part.columns.offsets for part in parts] == [list(range(5, 10)), list(range(10, 20))]
    assert [part.next_offset for part in parts] == [10, 20]


async def test_a_long_poll_ends_when_a_record_comes() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with consumer_of(cluster) as consumer:
        consumer.assign([tp("orders")])
        polling = asyncio.create_task(consumer.poll(timeout_ms=60_000))
        await asyncio.sleep(10.1)
        fill(cluster, "orders", 1)
        started_s = asyncio.get_running_loop().time()
        assert len(await polling) == 1
        assert asyncio.get_running_loop().time() - started_s < 0.01


async def test_a_seek_or_a_new_partition_does_not_wait_for_the_end_of_a_long_poll() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders", partitions=2)
    fill(cluster, "orders", 10, 0)
    fill(cluster, "orders", 10, 1)
    async with consumer_of(cluster, fetch_max_wait_ms=30_000) as consumer:
        consumer.assign([tp("orders", 0)])
        assert await consumer.poll(timeout_ms=1_000) == []
        started_s = asyncio.get_running_loop().time()
        consumer.seek(tp("orders", 0), 4)
        assert (await read(consumer, 6))[0].offset == 4
        consumer.assign([tp("orders", 0), tp("orders", 1)])
        consumer.seek_to_beginning(tp("orders", 1))
        assert len(await read(consumer, 10)) == 10
        assert asyncio.get_running_loop().time() - started_s < 0.1


async def test_the_next_fetch_is_under_way_while_records_are_handed_out() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    fill(cluster, "orders", 400)
    async with consumer_of(cluster, auto_offset_reset="earliest", max_partition_fetch_bytes=1_000) as consumer:
        consumer.assign([tp("orders")])
        await consumer.poll(max_records=1)
        await asyncio.sleep(0.1)
        assert len(cluster.brokers[1].fetched) > 2
        assert [record.offset for record in await read(consumer, 399)] == list(range(1, 400))


async def test_reading_ahead_stops_at_its_bound() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    fill(cluster, "orders", 1_000)
    settings = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 500, "fetch_max_bytes": 2_000}
    async with consumer_of(cluster, **settings) as consumer:
        consumer.assign([tp("orders")])
        await consumer.poll(max_records=1)
        await asyncio.sleep(60)
        assert len(cluster.brokers[1].fetched) < 10
        assert len(await read(consumer, 999)) == 999


async def test_a_moved_leader_is_followed() -> None:
    async with consumer_of_orders() as (cluster, consumer):
        await read(consumer, 10)
        cluster.move_leader("orders", 0, 2)
        cluster.brokers[1].kill()
        fill(cluster, "orders", 10)
        assert [record.offset for record in await read(consumer, 10)] == list(range(10, 20))


async def test_a_leader_that_hangs_is_left_as_soon_as_another_leads() -> None:
    async with consumer_of_orders() as (cluster, consumer):
        await read(consumer, 10)
        cluster.brokers[1].hangs = True
        cluster.move_leader("orders", 0, 2)
        fill(cluster, "orders", 10)
        started_s = asyncio.get_running_loop().time()
        await read(consumer, 10)
        assert asyncio.get_running_loop().time() - started_s < 6


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_REQUEST])
async def test_a_fetch_stream_that_ends_with_a_refusal_does_not_end_the_fetching(code: ErrorCode) -> None:
    async with consumer_of_orders() as (cluster, consumer):
        await read(consumer, 10)
        (stream,) = cluster.brokers[1].streams
        stream.refuse(Refusal(code, "the stream is refused"))
        fill(cluster, "orders", 10)
        if not code.retriable:
            for _ in range(2):
                with pytest.raises(Refusal, match="INVALID_REQUEST: orders-0: the stream is refused"):
                    await consumer.poll(timeout_ms=5_000)
            consumer.seek(tp("orders"), 10)
        assert [record.offset for record in await read(consumer, 10)] == list(range(10, 20))


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_REQUEST])
async def test_a_refused_check_of_a_new_leader_does_not_end_the_fetching(code: ErrorCode) -> None:
    async with consumer_of_orders() as (cluster, consumer):
        await read(consumer, 10)
        cluster.brokers[2].refusals["offset_for_leader_epoch"] = Refusal(code, "the call is refused")
        cluster.move_leader("orders", 0, 2)
        fill(cluster, "orders", 10)
        if not code.retriable:
            with pytest.raises(Refusal, match=r"INVALID_REQUEST: orders-0: .* the call is refused"):
                await consumer.poll(timeout_ms=5_000)
            consumer.seek(tp("orders"), 10)
        assert [record.offset for record in await read(consumer, 10)] == list(range(10, 20))


async def test_an_offset_out_of_range_is_reset_as_the_policy_says() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    fill(cluster, "orders", 30)
    cluster.partition("orders").log_start_offset = 20
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders")])
        consumer.seek(tp("orders"), 3)
        assert (await read(consumer, 10))[0].offset == 20
    async with consumer_of(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([tp("orders")])
        with pytest.raises(Refusal, match=r"no position, and auto\.offset\.reset=none"):
            await consumer.poll()
        consumer.seek(tp("orders"), 3)
        with pytest.raises(Refusal, match=r"orders-0 does not hold offset 3 \(log start offset 20\)"):
            await consumer.poll()
        consumer.seek(tp("orders"), 25)
        assert len(await read(consumer, 5)) == 5


@pytest.mark.parametrize("settings", [{}, {"group_id": "billing"}], ids=["without a group", "in a group"])
async def test_a_poll_before_a_subscription_or_an_assignment_is_refused(settings: dict[str, str]) -> None:
    async with consumer_of(FakeCluster(), **settings) as consumer:
        with pytest.raises(SubscriptionConflict, match="poll: nothing is assigned or subscribed to"):
            await consumer.poll()


async def test_a_missing_topic_or_partition_is_named_by_poll() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=2)
    async with consumer_of(cluster) as consumer:
        consumer.assign([tp("ordres")])
        with pytest.raises(Refusal, match="topic 'ordres' does not exist"):
            await consumer.poll(timeout_ms=30_000)
        consumer.assign([tp("orders", 7)])
        with pytest.raises(Refusal, match="topic 'orders' has partitions 0 to 1, not 7"):
            await consumer.poll(timeout_ms=30_000)
        with pytest.raises(Refusal, match="'ordres'"):
            await consumer.partitions_for("ordres")


async def test_a_topic_that_is_deleted_is_noticed() -> None:
    cluster = FakeCluster()
    partition = cluster.create("orders")[0]
    fill(cluster, "orders", 10)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders")])
        await read(consumer, 10)
        cluster.hidden_topics.add("orders")
        partition.leader_id = -1
        with pytest.raises(Refusal, match="topic 'orders' does not exist"):
            await consumer.poll(timeout_ms=30_000)


async def test_a_topic_that_two_brokers_did_not_know_at_different_times_is_not_missing() -> None:
    async with consumer_of_orders() as (cluster, consumer):
        await read(consumer, 10)
        cluster.move_leader("orders", 0, -1)
        for _ in range(2):
            cluster.hidden_topics.add("orders")
            assert await consumer.poll(timeout_ms=2_000) == []
            cluster.hidden_topics.clear()
            assert await consumer.poll(timeout_ms=10_000) == []
        cluster.move_leader("orders", 0, 2)
        fill(cluster, "orders", 1)
        assert len(await read(consumer, 1)) == 1


async def test_brokers_that_do_not_answer_are_named() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.brokers[1].is_up = False
    async with consumer_of(cluster, default_api_timeout_ms=10_000) as consumer:
        consumer.assign([tp("orders")])
        with pytest.raises(NoBrokerReachable, match=r"within 10 s \(broker-1:9094: connection refused"):
            await consumer.poll(timeout_ms=30_000)


async def test_a_range_is_read_exactly_whatever_batches_it_cuts() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    fill(cluster, "orders", 95)
    async with consumer_of(cluster, max_partition_fetch_bytes=400) as consumer:
        offsets: list[int] = []
        async for part in consumer.read_columns(tp("orders"), 13, 77):
            offsets += part.columns.offsets
        assert offsets == list(range(13, 77))
        batches = [batch async for batch in consumer.read_batches(tp("orders"), 13, 77)]
        assert all_values(batches) == [b"%d" % number for number in range(10, 80)]
        assert [part async for part in consumer.read_columns(tp("orders"), 5, 5)] == []


async def test_a_range_goes_on_across_a_change_of_leader() -> None:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    fill(cluster, "orders", 50)
    async with consumer_of(cluster, max_partition_fetch_bytes=200) as consumer:
        offsets: list[int] = []
        async for part in consumer.read_columns(tp("orders"), 0, 50):
            if not offsets:
                cluster.move_leader("orders", 0, 2)
                cluster.brokers[1].kill()
            offsets += part.columns.offsets
        assert offsets == list(range(50))


async def test_a_range_that_is_not_there_is_an_error_and_no_wait_for_ever() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    fill(cluster, "orders", 50)
    cluster.partition("orders").log_start_offset = 20
    async with consumer_of(cluster) as consumer:
        with pytest.raises(Refusal, match="does not hold offset 10") as caught:
            await anext(consumer.read_columns(tp("orders"), 10, 30))
        assert caught.value.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(Refusal, match="received nothing from offset 50 on for 5000 ms; its high watermark was 50"):
            async for _ in consumer.read_columns(tp("orders"), 40, 60, timeout_ms=5_000):
                pass


async def test_offsets_are_found_at_the_leaders() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=3)
    for number in range(3):
        fill(cluster, "orders", 10 * number, number)
    cluster.partition("orders", 2).log_start_offset = 5
    everything = [tp("orders", number) for number in range(3)]
    async with consumer_of(cluster) as consumer:
        assert list((await consumer.beginning_offsets(everything)).values()) == [0, 0, 5]
        assert list((await consumer.end_offsets(everything)).values()) == [0, 10, 20]
        times = await consumer.offsets_for_times({tp("orders", 1): 45, tp("orders", 2): 1_000})
        assert await consumer.partitions_for("orders") == [0, 1, 2]
        assert await consumer.topics() == ["orders"]
    assert times == {tp("orders", 1): (5, 50), tp("orders", 2): None}


async def test_offsets_are_asked_for_again_where_the_leader_has_just_moved() -> None:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    fill(cluster, "orders", 7)
    async with consumer_of(cluster) as consumer:
        assert await consumer.end_offsets([tp("orders")]) == {tp("orders"): 7}
        cluster.move_leader("orders", 0, 3)
        assert await consumer.end_offsets([tp("orders")]) == {tp("orders"): 7}
        cluster.move_leader("orders", 0, -1)
        with pytest.raises(Refusal, match="orders-0"):
            await consumer.end_offsets([tp("orders")], timeout_ms=3_000)


async def test_batches_without_records_make_room_for_more() -> None:
    """A compaction may leave a batch empty; here one fills the buffer, and no poll returns anything of it."""
    cluster = FakeCluster(brokers=1)
    partition = cluster.create("orders")[0]
    fill(cluster, "orders", 3)
    (whole,) = partition.batches
    partition.batches[0] = rebuild_batch(read_header(whole), RecordColumns([], [], [], [], []))
    fill(cluster, "orders", 1)
    settings = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 1, "fetch_max_bytes": 1}
    async with consumer_of(cluster, **settings) as consumer:
        consumer.assign([tp("orders")])
        await consumer.position(tp("orders"))
        await asyncio.sleep(1)
        assert [each.offset for each in await consumer.poll(timeout_ms=60_000)] == [3]


@pytest.mark.parametrize("has_assignment", [False, True])
async def test_an_idle_consumer_learns_of_new_partitions(has_assignment: bool) -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with consumer_of(cluster) as consumer:
        assert await consumer.partitions_for("orders") == [0]
        if has_assignment:
            consumer.assign([tp("orders")])
            consumer.pause(tp("orders"))
            await consumer.position(tp("orders"))
        cluster.create("orders", partitions=2)
        await asyncio.sleep(301)
        assert await consumer.partitions_for("orders") == [0, 1]


async def test_an_error_in_a_task_of_the_consumer_is_raised_and_does_not_hang() -> None:
    async with consumer_of_orders() as (cluster, consumer):
        await read(consumer, 10)

        def fail(_: object) -> None:
            raise ZeroDivisionError("a bug of ours")

        cluster.brokers[1].fetch = fail  # type: ignore[assignment, method-assign]  # It fails whatever it is asked.
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await consumer.poll(timeout_ms=60_000)


async def test_an_offset_that_no_log_can_have_is_refused() -> None:
    async with consumer_of_orders() as (_, consumer):
        with pytest.raises(ValueError, match=r"9223372036854775808, which is not between 0 and 2\^63-1"):
            consumer.seek(tp("orders"), 1 << 63)


@pytest.mark.parametrize("waiting", ["poll", "position", "end_offsets", "read_columns", "partitions_for"])
async def test_a_call_that_waits_while_the_consumer_is_closed_says_so(waiting: str) -> None:
    cluster = FakeCluster(brokers=1)
    partition = cluster.create("orders")[0]
    consumer = consumer_of(cluster)
    await consumer.partitions_for("orders")
    partition.leader_id = -1
    await asyncio.sleep(301)
    consumer.assign([tp("orders")])
    cluster.brokers[1].is_up = waiting != "partitions_for"
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "poll": lambda: consumer.poll(timeout_ms=60_000),
        "position": lambda: consumer.position(tp("orders")),
        "end_offsets": lambda: consumer.end_offsets([tp("orders")]),
        "read_columns": lambda: anext(consumer.read_columns(tp("orders"), 0, 5)),
        "partitions_for": lambda: consumer.partitions_for("payments"),
    }
    task = asyncio.ensure_future(calls[waiting]())
    await asyncio.sleep(3)
    assert not task.done()
    await consumer.close()
    started_s = asyncio.get_running_loop().time()
    with pytest.raises(ClientClosed):
        await task
    assert asyncio.get_running_loop().time() - started_s < 2


async def test_iteration_goes_on_for_ever() -> None:
    async with consumer_of_orders() as (cluster, consumer):
        seen: list[int] = []
        async for record in consumer:
            seen.append(record.offset)
            if len(seen) == 10:
                fill(cluster, "orders", 3)
            if len(seen) == 13:
                break
    assert seen == list(range(13))


async def test_paused_partitions_are_not_fetched_until_they_are_resumed() -> None:
    async with consumer_of_orders() as (_, consumer):
        consumer.pause(tp("orders"))
        assert await consumer.poll(timeout_ms=2_000) == []
        consumer.resume(tp("orders"))
        assert len(await read(consumer, 10)) == 10


async def test_an_assignment_keeps_the_position_of_what_stays() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=2)
    fill(cluster, "orders", 10, 0)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders", 0)])
        await consumer.poll(max_records=3)
        consumer.assign([tp("orders", 1), tp("orders", 0)])
        assert await consumer.position(tp("orders", 0)) == 3
        assert (await read(consumer, 7))[0].offset == 3
        with pytest.raises(ValueError, match="payments-0 is not assigned"):
            consumer.seek(tp("payments"), 1)


async def test_a_closed_consumer_stays_closed() -> None:
    cluster = FakeCluster()
    consumer = consumer_of(cluster)
    await consumer.close()
    with pytest.raises(ClientClosed):
        await consumer.poll()
