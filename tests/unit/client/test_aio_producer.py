from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from kraft.client.aio.producer import Producer
from kraft.client.cluster.any_broker import NoBrokerReachable
from kraft.client.model.errors import BufferExhausted, ClientClosed, DeliveryTimeout, RecordTooLarge
from kraft.client.model.values import ColumnsToSend
from kraft.log.format.record_batch import decode_batch, read_header
from kraft.model.errors import ErrorCode, Refusal
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.virtual_time import WALL_MS_AT_START, virtual_network


def producer_of(cluster: FakeCluster, **settings: Any) -> Producer:
    return Producer(cluster.bootstrap_servers, network=virtual_network(cluster), **settings)


async def test_a_record_is_stored_and_its_place_is_known() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with producer_of(cluster, compression_type="lz4") as producer:
        stored = await producer.send_and_wait("orders", b"two pizzas", key=b"anna", headers=[("h", None)])
    assert (stored.topic, stored.partition, stored.offset) == ("orders", 0, 0)
    assert stored.timestamp_ms == WALL_MS_AT_START
    (record,) = cluster.partition("orders").records()
    assert (record.key, record.value, record.headers) == (b"anna", b"two pizzas", (("h", None),))
    assert cluster.closed == 1


async def test_records_of_one_moment_share_a_batch_and_partitions_of_one_leader_share_a_request() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders", partitions=3)
    async with producer_of(cluster) as producer:
        for number in range(30):
            await producer.send("orders", b"%d" % number, partition=number % 3)
    (request,) = cluster.brokers[1].produced
    assert [read_header(each.records).record_count for each in request.partitions] == [10, 10, 10]


async def test_a_key_always_goes_to_the_same_partition() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=5)
    async with producer_of(cluster) as producer:
        places = {
            (await producer.send_and_wait("orders", b"", key=b"anna", timestamp_ms=1)).partition for _ in range(3)
        }
    assert len(places) == 1


async def test_many_records_are_one_delivery() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=2)
    async with producer_of(cluster, batch_size=1_000) as producer:
        keys = [b"k%d" % (number % 7) for number in range(500)]
        future = await producer.produce_many("orders", [b"%d" % number for number in range(500)], keys)
        delivery = await future
    assert delivery.records == 500
    assert delivery.end_offsets == {
        tp("orders", number): cluster.partition("orders", number).end_offset for number in range(2)
    }
    for number in range(2):
        values = [int(value or b"") for value in cluster.values("orders", number)]
        assert values == sorted(values)
        assert values


async def test_many_records_without_keys_fill_batch_after_batch_across_partitions() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=3)
    async with producer_of(cluster, batch_size=1_000) as producer:
        await (await producer.produce_many("orders", [b"x" * 80] * 60))
    batches = [batch for partition in cluster.topics["orders"] for batch in partition.batches]
    assert sum(len(decode_batch(batch)) for batch in batches) == 60
    assert all(partition.batches for partition in cluster.topics["orders"])
    assert len(batches) <= 8


async def test_no_records_are_delivered_at_once() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with producer_of(cluster) as producer:
        assert (await (await producer.produce_many("orders", []))).records == 0


@pytest.mark.parametrize("fault", ["loses_answers", "loses_requests"])
async def test_a_broken_stream_neither_loses_nor_repeats_a_record(fault: str) -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    async with producer_of(cluster, batch_size=100) as producer:
        setattr(cluster.brokers[1], fault, 3)
        futures = [await producer.send("orders", b"%d" % number) for number in range(20)]
        offsets = [(await future).offset for future in futures]
    assert offsets == list(range(20))
    assert cluster.values("orders") == [b"%d" % number for number in range(20)]


async def test_a_killed_leader_is_replaced_without_loss() -> None:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    async with producer_of(cluster, batch_size=100) as producer:
        cluster.brokers[1].loses_answers = 1
        futures = [await producer.send("orders", b"%d" % number) for number in range(20)]
        await asyncio.sleep(0.006)
        cluster.brokers[1].kill()
        await asyncio.sleep(2.0)
        assert not all(future.done() for future in futures)
        cluster.move_leader("orders", 0, 2)
        moved_at_s = asyncio.get_running_loop().time()
        await asyncio.gather(*futures)
        assert asyncio.get_running_loop().time() - moved_at_s < 0.5
    assert cluster.values("orders") == [b"%d" % number for number in range(20)]


async def test_a_leader_that_hangs_is_left_as_soon_as_another_leads() -> None:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("orders", b"first")
        cluster.brokers[1].hangs = True
        future = await producer.send("orders", b"second")
        await asyncio.sleep(3)
        cluster.move_leader("orders", 0, 3)
        await asyncio.wait_for(future, 5)
    assert cluster.values("orders") == [b"first", b"second"]


async def test_a_request_that_is_not_answered_in_its_time_is_made_again() -> None:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    async with producer_of(cluster, request_timeout_ms=2_000) as producer:
        await producer.send_and_wait("orders", b"first")
        cluster.brokers[1].hangs = True
        began_s = asyncio.get_running_loop().time()
        future = await producer.send("orders", b"second")
        await asyncio.sleep(1)
        cluster.brokers[1].hangs = False
        await future
        assert 2 <= asyncio.get_running_loop().time() - began_s < 2.5
    assert cluster.values("orders") == [b"first", b"second"]


async def test_without_acks_a_record_counts_as_stored_when_it_was_sent() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with producer_of(cluster, acks=0) as producer:
        assert (await producer.send_and_wait("orders", b"a")).offset == -1
    assert cluster.values("orders") == [b"a"]
    assert cluster.producer_ids == 0


@pytest.mark.parametrize(("word", "acks"), [("all", -1), ("-1", -1), (1, 1), ("0", 0)])
async def test_every_request_says_how_many_acknowledgements_are_wanted(word: object, acks: int) -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders", partitions=2)
    async with producer_of(cluster, acks=word) as producer:
        for number in range(4):
            await producer.send_and_wait("orders", b"a", partition=number % 2)
    assert {request.acks for request in cluster.brokers[1].produced} == {acks}


async def test_without_acks_what_was_sent_before_the_close_still_arrives() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    cluster.brokers[1].reads_late = True
    async with producer_of(cluster, acks=0) as producer:
        await producer.send_and_wait("orders", b"a")
        await producer.send_and_wait("orders", b"b")
    assert cluster.values("orders") == [b"a", b"b"]


async def test_without_acks_a_broker_that_hangs_does_not_keep_the_producer_from_closing() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    producer = producer_of(cluster, acks=0)
    await producer.send_and_wait("orders", b"a")
    cluster.brokers[1].never_finishes = True
    async with asyncio.timeout(10):
        await producer.close()


async def test_without_acks_a_broken_stream_is_reason_to_look_for_the_new_leader() -> None:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    async with producer_of(cluster, acks=0) as producer:
        await producer.send_and_wait("orders", b"0")
        cluster.move_leader("orders", 0, 2)
        for number in range(1, 11):
            await producer.send_and_wait("orders", b"%d" % number)
            await asyncio.sleep(1)
    assert cluster.values("orders")[-8:] == [b"%d" % number for number in range(3, 11)]


async def test_without_acks_a_refused_append_breaks_the_link_at_once() -> None:
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    async with producer_of(cluster, acks=0) as producer:
        await producer.send_and_wait("orders", b"0")
        cluster.move_leader("orders", 0, 2)
        await producer.send_and_wait("orders", b"1")
        cluster.calls.clear()
        await asyncio.sleep(1)
        assert "broker-1:9094 metadata" in cluster.calls, "without another record to send"
        await producer.send_and_wait("orders", b"2")
    gc.collect()
    assert failures == []
    assert cluster.values("orders") == [b"0", b"2"]


async def test_without_acks_a_refusal_at_the_end_of_the_stream_does_not_fail_the_close() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    producer = producer_of(cluster, acks=0)
    await producer.send_and_wait("orders", b"a")
    (stream,) = cluster.brokers[1].streams
    stream.refusal = Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the append failed")
    await producer.close()


async def test_a_stream_that_ends_with_a_refusal_neither_loses_nor_repeats_a_record() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.create("orders")
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("orders", b"a")
        cluster.brokers[1].streams[-1].refuse(Refusal(ErrorCode.INVALID_REQUEST, "not a valid request"))
        async with asyncio.timeout(5):
            await producer.send_and_wait("orders", b"b")
    assert cluster.values("orders") == [b"a", b"b"]


async def test_a_new_topic_is_waited_for() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    cluster.hidden_topics.add("orders")
    async with producer_of(cluster) as producer:
        sending = asyncio.create_task(producer.send_and_wait("orders", b"a"))
        await asyncio.sleep(1)
        cluster.hidden_topics.clear()
        assert (await sending).offset == 0


async def test_a_missing_topic_is_named() -> None:
    async with producer_of(FakeCluster()) as producer:
        with pytest.raises(Refusal, match="'ordres'") as caught:
            await producer.send("ordres", b"a")
        assert caught.value.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_missing_partition_is_named() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=2)
    async with producer_of(cluster) as producer:
        with pytest.raises(Refusal, match="'orders' has partitions 0 to 1, not 2"):
            await producer.send("orders", b"a", partition=2)


async def test_a_partition_that_was_added_is_sent_to() -> None:
    cluster = FakeCluster()
    cluster.create("orders", partitions=2)
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("orders", b"a", partition=1)
        cluster.create("orders", partitions=5)
        assert (await producer.send_and_wait("orders", b"b", partition=2)).partition == 2
        await (await producer.produce_many("orders", [b"c"], partition=3))
        await (await producer.send_columns("orders", ColumnsToSend(values=[b"d", b"e"], partitions=[0, 4])))
    assert [len(cluster.partition("orders", number).records()) for number in (2, 3, 4)] == [1, 1, 1]


async def test_brokers_that_do_not_answer_are_all_named_when_time_is_up() -> None:
    cluster = FakeCluster(brokers=2)
    for broker in cluster.brokers.values():
        broker.is_up = False
    async with producer_of(cluster, max_block_ms=10_000) as producer:
        started_s = asyncio.get_running_loop().time()
        with pytest.raises(NoBrokerReachable) as caught:
            await producer.send("orders", b"a")
        assert asyncio.get_running_loop().time() - started_s <= 10
    assert str(caught.value) == (
        "no broker answered within 10 s (broker-1:9094: connection refused; broker-2:9094: connection refused)"
    )


async def test_what_is_not_acknowledged_in_time_fails_with_the_reason() -> None:
    cluster = FakeCluster()
    partition = cluster.create("orders")[0]
    partition.refusals.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 10_000)
    async with producer_of(cluster) as producer:
        future = await producer.send("orders", b"a")
        with pytest.raises(DeliveryTimeout, match=r"orders-0: .*NOT_ENOUGH_REPLICAS"):
            await future


async def test_a_record_above_the_bound_is_refused_before_it_is_sent() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with producer_of(cluster) as producer:
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size=1048576"):
            await producer.send("orders", b"x" * (1 << 20))
        with pytest.raises(RecordTooLarge):
            await producer.produce_many("orders", [b"", b"x" * (1 << 20)])
    assert cluster.values("orders") == []


async def test_a_record_that_only_the_topic_refuses_fails_alone() -> None:
    cluster = FakeCluster()
    cluster.create("orders")[0].size_max = 500
    async with producer_of(cluster) as producer:
        futures = [await producer.send("orders", value) for value in (b"a", b"x" * 600, b"b")]
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["RecordMetadata", "Refusal", "RecordMetadata"]
    assert cluster.values("orders") == [b"a", b"b"]


async def test_text_is_refused_because_its_encoding_is_the_users_choice() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with producer_of(cluster) as producer:
        with pytest.raises(TypeError, match="value must be bytes or None, not str"):
            await producer.send("orders", "text")  # type: ignore[arg-type]  # The mistake under test.
        with pytest.raises(ValueError, match="is not between 0 and"):
            await producer.send("orders", b"a", timestamp_ms=-1)
        with pytest.raises(ValueError, match="1 keys for 2 values"):
            await producer.produce_many("orders", [b"a", b"b"], [b"k"])


async def test_sending_waits_for_memory_and_goes_on_when_there_is_some() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with producer_of(cluster, buffer_memory=2_000, batch_size=500, linger_ms=20_000) as producer:
        for _ in range(50):
            await producer.send("orders", b"x" * 300)
        await producer.flush()
    assert len(cluster.values("orders")) == 50


async def test_memory_that_stays_full_is_an_error_that_names_its_setting() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with producer_of(cluster, buffer_memory=500, max_block_ms=3_000) as producer:
        await producer.partitions_for("orders")
        cluster.brokers[1].hangs = True
        future = await producer.send("orders", b"x" * 400)
        with pytest.raises(BufferExhausted, match=r"buffer\.memory=500 stayed full for max\.block\.ms=3000"):
            await producer.send("orders", b"x" * 400)
        await producer.close(timeout_ms=0)
        with pytest.raises(ClientClosed):
            await future


async def test_the_longest_delay_has_the_reason_for_which_records_wait_now() -> None:
    cluster = FakeCluster()
    (partition,) = cluster.create("orders")
    async with producer_of(cluster) as producer:
        assert producer.longest_delay() is None
        await producer.send_and_wait("orders", b"a")
        assert producer.longest_delay() is None
        cluster.move_leader("orders", 0, -1)
        partition.refusals.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        future = await producer.send("orders", b"b")
        await asyncio.sleep(20)
        delay = producer.longest_delay()
        assert delay is not None
        assert (delay.partition, delay.reason, delay.waited_ms) == (tp("orders"), "NOT_LEADER_OR_FOLLOWER", 20_000)
        unsent = await producer.send("orders", b"c")
        cluster.move_leader("orders", 0, 2)
        await future
        await unsent
        cluster.brokers[2].hangs = True
        hanging = await producer.send("orders", b"d")
        await asyncio.sleep(8)
        delay = producer.longest_delay()
        assert delay is not None
        assert delay.reason == "no response from broker-2:9094 yet"
        assert 7_900 < delay.waited_ms <= 8_000
        await producer.close(timeout_ms=0)
        assert producer.longest_delay() is None
        with pytest.raises(ClientClosed):
            await hanging


async def test_the_longest_delay_is_that_of_the_oldest_record() -> None:
    cluster = FakeCluster()
    older, newer = cluster.create("orders", partitions=2)
    older.refusals.extend([ErrorCode.KAFKA_STORAGE_ERROR] * 3)
    newer.refusals.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 10)
    async with producer_of(cluster) as producer:
        first = await producer.send("orders", b"a", partition=0)
        assert producer.longest_delay() is None, "it waits for its turn"
        await asyncio.sleep(0.1)
        second = await producer.send("orders", b"b", partition=1)
        await asyncio.sleep(0.1)
        delays = [producer.longest_delay()]
        await first
        delays.append(producer.longest_delay())
        assert [(each.partition, each.reason) for each in delays if each is not None] == [
            (tp("orders", 0), "KAFKA_STORAGE_ERROR"),
            (tp("orders", 1), "NOT_ENOUGH_REPLICAS"),
        ]
        await second


async def test_a_record_that_was_never_sent_has_the_reason_of_the_cluster_until_it_can_be_sent() -> None:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=-1)
    async with producer_of(cluster) as producer:
        future = await producer.send("orders", b"a")
        await asyncio.sleep(6)
        delay = producer.longest_delay()
        assert delay is not None
        assert delay.reason == "orders-0 has no leader"
        cluster.brokers[2].hangs = True
        cluster.move_leader("orders", 0, 2)
        await asyncio.sleep(2)
        delay = producer.longest_delay()
        assert delay is not None
        assert delay.reason == "no response from broker-2:9094 yet"
        await producer.close(timeout_ms=0)
        with pytest.raises(ClientClosed):
            await future


async def test_flush_waits_for_what_was_sent_before_it_and_says_when_time_was_too_short() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    async with producer_of(cluster, linger_ms=60_000, request_timeout_ms=30_000) as producer:
        future = await producer.send("orders", b"a")
        assert await producer.flush()
        assert future.done()
        for broker in cluster.brokers.values():
            broker.hangs = True
        late = await producer.send("orders", b"b")
        assert not await producer.flush(timeout_ms=100)
        await producer.close(timeout_ms=0)
        assert isinstance(late.exception(), ClientClosed)


async def test_an_idle_producer_learns_of_new_leaders_and_partitions() -> None:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("orders", b"a")
        cluster.create("orders", partitions=2, leader_id=2)
        cluster.partition("orders").leader_epoch = 1
        await asyncio.sleep(301)
        assert await producer.partitions_for("orders") == [0, 1]
        await producer.send_and_wait("orders", b"b", partition=0)
    assert len(cluster.brokers[1].produced) == 1, "the record went to the new leader at once"


async def test_a_send_that_waits_while_the_producer_is_closed_says_so() -> None:
    cluster = FakeCluster(brokers=1)
    cluster.brokers[1].is_up = False
    producer = producer_of(cluster)
    sending = asyncio.create_task(producer.send("orders", b"a"))
    await asyncio.sleep(3)
    await producer.close()
    with pytest.raises(ClientClosed):
        await asyncio.wait_for(sending, 2)


async def test_a_close_that_is_cancelled_closes_all_the_same() -> None:
    cluster = FakeCluster()
    cluster.create("orders", leader_id=1)
    producer = producer_of(cluster)
    await producer.partitions_for("orders")
    cluster.brokers[1].hangs = True
    future = await producer.send("orders", b"a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await producer.close()
    assert isinstance(future.exception(), ClientClosed)
    assert cluster.closed == 1


async def test_a_closed_producer_takes_nothing() -> None:
    cluster = FakeCluster()
    cluster.create("orders")
    producer = producer_of(cluster)
    await producer.send_and_wait("orders", b"a")
    await producer.close()
    await producer.close()
    with pytest.raises(ClientClosed):
        await producer.send("orders", b"b")
