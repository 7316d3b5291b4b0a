"""A user's function chooses partitions, however records are sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.client.aio.producer import Producer
from kraft.client.model.values import ColumnsToSend
from kraft.client.threads.producer import Producer as SyncProducer
from kraft.log.format.record_batch import decode_batch
from kraft.model.errors import KraftError
from tests.support.client.fake_cluster import FakeCluster
from tests.support.virtual_time import virtual_network

VALUES: list[bytes | None] = [b"%d" % number for number in range(9)]


def by_size(topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
    """Send each number to its rest; keys decide nothing."""
    assert (topic, key, partition_count) == ("orders", b"k", 3)
    return int(value or b"0") % partition_count


def stored(cluster: FakeCluster) -> list[list[bytes | None]]:
    return [
        [record.value for batch in cluster.partition("orders", number).batches for record in decode_batch(batch)]
        for number in range(3)
    ]


def orders() -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("orders", partitions=3)
    return cluster


def producer_of(cluster: FakeCluster, partitioner: Any) -> Producer:
    return Producer(cluster.bootstrap_servers, network=virtual_network(cluster), partitioner=partitioner)


EXPECTED = [[b"0", b"3", b"6"], [b"1", b"4", b"7"], [b"2", b"5", b"8"]]


async def test_a_function_of_the_user_chooses_the_partition_of_each_record() -> None:
    cluster = orders()
    async with producer_of(cluster, by_size) as producer:
        await asyncio.gather(*[await producer.send("orders", value, key=b"k") for value in VALUES])
    assert stored(cluster) == EXPECTED


@pytest.mark.parametrize("way", ["many", "columns"])
async def test_it_chooses_for_records_that_are_sent_together(way: str) -> None:
    cluster, keys = orders(), [b"k"] * 9
    async with producer_of(cluster, by_size) as producer:
        if way == "many":
            await (await producer.produce_many("orders", VALUES, keys))
        else:
            await (await producer.send_columns("orders", ColumnsToSend(values=VALUES, keys=list(keys))))
    assert stored(cluster) == EXPECTED


async def test_a_partition_that_is_named_goes_first() -> None:
    cluster = orders()
    async with producer_of(cluster, by_size) as producer:
        await producer.send_and_wait("orders", b"1", key=b"k", partition=2)
    assert stored(cluster) == [[], [], [b"1"]]


@pytest.mark.parametrize(
    ("partitioner", "expected"),
    [
        (lambda *_: 3, "returned 3 for a record of orders: give a partition, 0 to 2"),
        (lambda *_: None, "returned None for a record of orders"),
        (lambda *_: int("x"), "failed for a record of orders: ValueError"),
    ],
)
async def test_a_function_that_fails_is_an_error_of_its_record(partitioner: Any, expected: str) -> None:
    async with producer_of(orders(), partitioner) as producer:
        with pytest.raises(KraftError, match=expected):
            await producer.send("orders", b"v")
        with pytest.raises(KraftError, match=expected):
            await (await producer.produce_many("orders", [b"v"]))


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(KraftError, match=r"partitioner='murmur2' is no function"):
        SyncProducer("localhost:1", partitioner="murmur2")
