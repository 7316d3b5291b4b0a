"""Consumers whose partition has a corrupt batch: nothing behind it is returned until a seek."""

from __future__ import annotations

import asyncio

import pytest

from kraft.client.model.settings import ConsumerSettings
from kraft.client.sans_io.fetch_buffer import FetchBuffer
from kraft.model.errors import InvalidBatch
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.fake_partition import FakePartition, all_values
from tests.unit.client.clients import consumer_of, fill, read

LENGTH_POSITION = 9
"""Position of the second byte of the batch length in a record batch."""


def corrupt(partition: FakePartition, number: int, position: int = -1) -> None:
    batch = bytearray(partition.batches[number])
    batch[position] ^= 1
    partition.batches[number] = bytes(batch)


async def test_bad_bytes_are_refused_with_their_place_and_nothing_behind_them_is_read() -> None:
    cluster = FakeCluster()
    partition = cluster.create("orders")[0]
    fill(cluster, "orders", 30)
    corrupt(partition, 1)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders")])
        assert [record.offset for record in await read(consumer, 10)] == list(range(10))
        for _ in range(2):
            with pytest.raises(InvalidBatch, match="orders-0 at offset 10: the checksum"):
                await consumer.poll()


async def test_a_fetch_in_flight_at_a_corrupt_batch_is_dropped() -> None:
    cluster = FakeCluster()
    partition = cluster.create("orders")[0]
    fill(cluster, "orders", 2, batch_records=1)
    corrupt(partition, 1)
    async with consumer_of(cluster, auto_offset_reset="earliest", max_partition_fetch_bytes=1) as consumer:
        consumer.assign([tp("orders")])
        assert await consumer.position(tp("orders")) == 0
        # Both batches are buffered, and a request for what follows waits at the leader.
        await asyncio.sleep(0.1)
        assert [record.offset for record in await consumer.poll()] == [0]
        fill(cluster, "orders", 3, batch_records=1)
        for _ in range(2):
            await asyncio.sleep(0.1)
            with pytest.raises(InvalidBatch, match="orders-0 at offset 1: the checksum"):
                await consumer.poll_batches()
            assert await consumer.position(tp("orders")) == 1
        consumer.seek(tp("orders"), 2)
        assert [record.offset for record in await read(consumer, 3)] == [2, 3, 4]


async def test_a_batch_that_the_leader_finds_corrupt_is_reported_with_its_place_and_read_once_it_is_good() -> None:
    cluster = FakeCluster()
    partition = cluster.create("orders")[0]
    fill(cluster, "orders", 20)
    partition.corrupt_at = 10
    async with consumer_of(cluster, auto_offset_reset="earliest", max_partition_fetch_bytes=1) as consumer:
        consumer.assign([tp("orders")])
        assert [record.offset for record in await read(consumer, 10)] == list(range(10))
        for _ in range(3):
            with pytest.raises(InvalidBatch, match=r"orders-0 at offset 10: .* seek to an offset after it"):
                await read(consumer, 1)
            assert await consumer.position(tp("orders")) == 10
        partition.corrupt_at = None
        assert [record.offset for record in await read(consumer, 10)] == list(range(10, 20))


async def test_a_seek_goes_past_a_batch_that_the_leader_finds_corrupt() -> None:
    cluster = FakeCluster()
    cluster.create("orders")[0].corrupt_at = 0
    fill(cluster, "orders", 20)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders")])
        with pytest.raises(InvalidBatch, match="orders-0 at offset 0: "):
            await read(consumer, 1)
        consumer.seek(tp("orders"), 10)
        assert [record.offset for record in await read(consumer, 10)] == list(range(10, 20))


async def test_records_before_a_batch_with_a_corrupt_length_are_returned() -> None:
    cluster = FakeCluster()
    partition = cluster.create("orders")[0]
    fill(cluster, "orders", 30)
    corrupt(partition, 1, LENGTH_POSITION)
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp("orders")])
        assert [record.offset for record in await read(consumer, 10)] == list(range(10))
        with pytest.raises(InvalidBatch, match="orders-0 at offset 10: "):
            await consumer.poll()
        columns = consumer.read_columns(tp("orders"), 3, 30)
        assert (await anext(columns)).columns.offsets == list(range(3, 10))
        with pytest.raises(InvalidBatch, match="orders-0 at offset 10: "):
            await anext(columns)
        batches = consumer.read_batches(tp("orders"), 0, 30)
        assert all_values([await anext(batches)]) == [b"%d" % number for number in range(10)]
        with pytest.raises(InvalidBatch, match="orders-0 at offset 10: "):
            await anext(batches)


async def test_a_corrupt_batch_ends_a_range_although_the_next_ones_were_fetched() -> None:
    cluster = FakeCluster()
    partition = cluster.create("orders")[0]
    fill(cluster, "orders", 30)
    corrupt(partition, 1)
    async with consumer_of(cluster, max_partition_fetch_bytes=1) as consumer:
        columns = consumer.read_columns(tp("orders"), 0, 30)
        assert (await anext(columns)).columns.offsets == list(range(10))
        await asyncio.sleep(0.1)
        with pytest.raises(InvalidBatch, match="orders-0 at offset 10: the checksum"):
            await anext(columns)
        with pytest.raises(StopAsyncIteration):
            await anext(columns)


def test_a_position_found_after_a_corrupt_batch_does_not_clear_the_error() -> None:
    buffer = FetchBuffer(ConsumerSettings(bootstrap_servers=("any:1",), auto_offset_reset="earliest"), lambda: 0.5)
    buffer.assign([tp("orders")])
    state = buffer.state(tp("orders"))
    assert buffer.wants_position(tp("orders"), state.generation)
    buffer.fail(tp("orders"), InvalidBatch("orders-0 at offset 10: corrupt"))
    assert not buffer.wants_position(tp("orders"), state.generation)


async def test_an_error_is_raised_although_another_partition_is_busy() -> None:
    cluster = FakeCluster(brokers=1)
    corrupted, _ = cluster.create("orders", partitions=2)
    fill(cluster, "orders", 10, 0)
    fill(cluster, "orders", 100, 1)
    corrupt(corrupted, 0)
    async with consumer_of(cluster, auto_offset_reset="earliest", max_poll_records=10) as consumer:
        consumer.assign([tp("orders", 0), tp("orders", 1)])
        assert [record.partition for record in await consumer.poll()] == [1] * 10
        with pytest.raises(InvalidBatch, match="orders-0 at offset 0: the checksum"):
            await consumer.poll()
        # Raised once, the error holds up the other partition no longer.
        assert len(await read(consumer, 90)) == 90
        with pytest.raises(InvalidBatch, match="orders-0 at offset 0: the checksum"):
            await consumer.poll()
