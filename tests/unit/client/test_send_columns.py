"""Records that are sent as columns arrive as those that are sent one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.client.aio.producer import Producer
from kraft.client.model.errors import RecordTooLarge
from kraft.client.model.values import ColumnsToSend, Delivery
from kraft.client.sans_io.partitioner import partition_for_key
from kraft.log.format.record_batch import decode_batch
from kraft.log.format.record_codec import Record
from kraft.model.errors import ErrorCode, Refusal
from tests.support.client.fake_cluster import FakeCluster
from tests.support.virtual_time import virtual_network

KEYS: list[bytes | None] = [b"%d" % number for number in range(50)]
VALUES: list[bytes | None] = [None if number % 9 == 0 else b"v" * number for number in range(50)]


def producer_of(cluster: FakeCluster, **settings: Any) -> Producer:
    return Producer(cluster.bootstrap_servers, network=virtual_network(cluster), **settings)


def cluster_with(partitions: int) -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("orders", partitions=partitions)
    return cluster


def stored(cluster: FakeCluster, partition: int) -> list[Record]:
    return [record for batch in cluster.partition("orders", partition).batches for record in decode_batch(batch)]


async def send(producer: Producer, values: list[bytes | None], **columns: Any) -> asyncio.Future[Delivery]:
    return await producer.send_columns("orders", ColumnsToSend(values=values, **columns))


async def test_keys_choose_the_partition_and_records_keep_their_order() -> None:
    cluster = cluster_with(3)
    async with producer_of(cluster) as producer:
        delivery = await (await send(producer, VALUES, keys=KEYS, timestamp_ms=7))
    assert delivery.records == 50
    for partition in range(3):
        expected = [
            (key, value)
            for key, value in zip(KEYS, VALUES, strict=True)
            if partition_for_key(key or b"", 3) == partition
        ]
        found = stored(cluster, partition)
        assert [(each.key, each.value) for each in found] == expected
        assert {each.timestamp_ms for each in found} == {7}


async def test_records_without_a_key_fill_one_batch_after_the_other() -> None:
    cluster = cluster_with(3)
    async with producer_of(cluster, batch_size=1_000) as producer:
        await (await send(producer, [b"x" * 80] * 100))
    batches = [[len(decode_batch(each)) for each in cluster.partition("orders", place).batches] for place in range(3)]
    assert sum(map(sum, batches)) == 100
    assert all(batches), "no partition is left out"
    assert max(map(max, batches)) <= 10


async def test_a_partition_may_be_given_for_all_or_for_each_record() -> None:
    cluster = cluster_with(3)
    async with producer_of(cluster) as producer:
        await (await send(producer, [b"a"], keys=[b"key"], partitions=2))
        key = next(each for each in KEYS if partition_for_key(each or b"", 3) == 1)
        await (await send(producer, [b"b", b"c", b"d"], keys=[None, None, key], partitions=[0, 2, None]))
    assert [[each.value for each in stored(cluster, place)] for place in range(3)] == [[b"b"], [b"d"], [b"a", b"c"]]


async def test_headers_are_stored_with_their_records() -> None:
    cluster = cluster_with(1)
    headers: list[tuple[tuple[str, bytes | None], ...]] = [(("a", b"1"), ("a", None)), ()]
    async with producer_of(cluster) as producer:
        await (await send(producer, [b"x", b"y"], headers=headers))
    assert [each.headers for each in stored(cluster, 0)] == headers


async def test_columns_and_single_records_keep_their_order() -> None:
    cluster = cluster_with(1)
    async with producer_of(cluster, linger_ms=30_000) as producer:
        await producer.send("orders", b"1")
        await send(producer, [b"2", b"3"])
        await send(producer, [b"4"])
        await producer.send("orders", b"5")
        await producer.flush()
    assert [each.value for each in stored(cluster, 0)] == [b"1", b"2", b"3", b"4", b"5"]


async def test_a_batch_that_is_too_large_for_the_partition_is_split() -> None:
    cluster = cluster_with(1)
    cluster.partition("orders").size_max = 600
    async with producer_of(cluster) as producer:
        delivery = await (await send(producer, [b"x" * 100] * 16))
    assert delivery.end_offsets[next(iter(delivery.end_offsets))] == 16
    assert [each.value for each in stored(cluster, 0)] == [b"x" * 100] * 16


async def test_what_does_not_fit_is_refused_before_a_record_is_queued() -> None:
    cluster = cluster_with(2)
    async with producer_of(cluster, max_request_size=1_000, batch_size=1_000) as producer:
        with pytest.raises(ValueError, match="1 keys for 2 values"):
            await send(producer, [b"a", b"b"], keys=[b"k"])
        with pytest.raises(ValueError, match="1 partitions for 2 values"):
            await send(producer, [b"a", b"b"], partitions=[1])
        with pytest.raises(TypeError, match="value must be bytes or None, not str"):
            await send(producer, ["text"])  # type: ignore[list-item]  # On purpose.
        for wrong in (2, -1):
            with pytest.raises(Refusal, match=rf"partitions 0 to 1, not {wrong}") as refused:
                await send(producer, [b"a", b"b"], partitions=[0, wrong])
            assert refused.value.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await producer.flush()
        assert [stored(cluster, place) for place in range(2)] == [[], []]
        with pytest.raises(RecordTooLarge):
            await send(producer, [b"x" * 2_000])


async def test_no_records_are_delivered_at_once() -> None:
    cluster = cluster_with(1)
    async with producer_of(cluster) as producer:
        assert (await (await send(producer, []))).records == 0
        await producer.flush()
        await (await send(producer, [b"next"]))
    assert [each.value for each in stored(cluster, 0)] == [b"next"]
    assert len(cluster.partition("orders").batches) == 1


@pytest.mark.parametrize("wrong", [None, "text", [("name", "text")], [("name", b"x", b"y")], [("\ud800", b"x")]])
async def test_wrong_headers_are_refused_before_the_first_record_is_queued(wrong: Any) -> None:
    cluster = cluster_with(1)
    async with producer_of(cluster) as producer:
        with pytest.raises((TypeError, UnicodeEncodeError)):
            await send(producer, [b"a", b"b"], headers=[(), wrong])
        await (await send(producer, [b"c"], headers=[[("name", None)]]))
    assert [(record.value, record.headers) for record in stored(cluster, 0)] == [(b"c", (("name", None),))]
