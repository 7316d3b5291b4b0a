"""Consumers with isolation.level=read_committed."""

from __future__ import annotations

import pytest

from kraft.client.aio.consumer import Consumer
from kraft.client.model.errors import SubscriptionConflict
from kraft.client.sans_io.batches import StoredBatch
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import build_batch, read_header
from kraft.log.format.record_codec import Record
from kraft.model.errors import InvalidBatch, Refusal
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.fake_groups import FakeGroups
from tests.unit.client.clients import consumer_of, read

ORDERS = tp("orders")


def cluster_with_orders() -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("orders")
    return cluster


def write(cluster: FakeCluster, producer_id: int, *values: bytes, epoch: int = 0) -> None:
    """Write records of a transaction, a batch for each."""
    log = cluster.partition("orders")
    for value in values:
        recent = log.recent[producer_id]
        sequence = recent[-1].last_sequence + 1 if recent else 0
        batch = build_batch(
            [Record(-1, 0, None, value)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        log.append(batch)
    cluster.news()


def end(cluster: FakeCluster, producer_id: int, *, commit: bool) -> None:
    cluster.partition("orders").append_marker(producer_id, 0, commit=commit)
    cluster.news()


def reader_of(cluster: FakeCluster, **settings: object) -> Consumer:
    chosen = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", **settings}
    consumer = consumer_of(cluster, **chosen)
    consumer.assign([ORDERS])
    return consumer


async def test_what_is_open_or_aborted_is_not_read() -> None:
    cluster = cluster_with_orders()
    write(cluster, 7, b"aborted", b"aborted")
    write(cluster, 8, b"kept")
    end(cluster, 7, commit=False)
    async with reader_of(cluster) as consumer:
        assert await consumer.poll(5_000) == [], "the transaction of producer 8 is open"
        write(cluster, 9, b"open")
        end(cluster, 8, commit=True)
        assert [each.value for each in await read(consumer, 1)] == [b"kept"]
        assert await consumer.poll(5_000) == []
        end(cluster, 9, commit=True)
        assert [each.value for each in await read(consumer, 1)] == [b"open"]


async def test_by_default_everything_but_markers_is_read() -> None:
    cluster = cluster_with_orders()
    write(cluster, 7, b"aborted")
    end(cluster, 7, commit=False)
    write(cluster, 8, b"open")
    async with consumer_of(cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS])
        assert [each.value for each in await read(consumer, 2)] == [b"aborted", b"open"]


@pytest.mark.parametrize("chunk_bytes", [1, 150, 1 << 20])
async def test_aborted_transactions_are_left_out_however_responses_divide_them(chunk_bytes: int) -> None:
    cluster = cluster_with_orders()
    for number in range(6):
        write(cluster, 7, *[b"%d" % number] * 3)
        end(cluster, 7, commit=number % 2 == 0)
    async with reader_of(cluster, max_partition_fetch_bytes=chunk_bytes) as consumer:
        values = [each.value for each in await read(consumer, 9)]
        assert values == [b"%d" % number for number in (0, 2, 4) for _ in range(3)]
        assert await consumer.poll(2_000, 1) == []
        assert await consumer.position(ORDERS) == 24


async def test_the_position_passes_what_is_not_seen() -> None:
    cluster = cluster_with_orders()
    write(cluster, 7, b"aborted", b"aborted")
    end(cluster, 7, commit=False)
    async with reader_of(cluster) as consumer:
        assert await consumer.poll(2_000) == []
        assert await consumer.position(ORDERS) == 3
        assert consumer.lag(ORDERS) == 0


async def test_the_last_stable_offset_is_the_end() -> None:
    cluster = cluster_with_orders()
    write(cluster, 7, b"kept")
    end(cluster, 7, commit=True)
    write(cluster, 8, b"open", b"open")
    async with reader_of(cluster) as consumer, consumer_of(cluster) as other:
        assert await consumer.end_offsets([ORDERS]) == {ORDERS: 2}
        assert await other.end_offsets([ORDERS]) == {ORDERS: 4}
        assert len(await consumer.poll(2_000, 1)) == 1
        assert consumer.lag(ORDERS) == 1
        assert await consumer.poll(2_000) == []
        assert consumer.lag(ORDERS) == 0
        consumer.seek_to_end()
        assert await consumer.position(ORDERS) == 2


async def test_an_iteration_ends_behind_a_marker() -> None:
    cluster = cluster_with_orders()
    write(cluster, 7, b"kept")
    end(cluster, 7, commit=True)
    write(cluster, 7, b"aborted")
    end(cluster, 7, commit=False)
    async with reader_of(cluster, consumer_timeout_ms=2_000) as consumer:
        assert [each.value async for each in consumer] == [b"kept"]
        assert await consumer.position(ORDERS) == 4


async def test_positions_behind_markers_are_committed() -> None:
    cluster = FakeCluster()
    cluster.place("orders", [1, 2, 3])
    cluster.groups = FakeGroups(cluster)
    write(cluster, 7, b"kept")
    end(cluster, 7, commit=True)
    write(cluster, 7, b"aborted")
    end(cluster, 7, commit=False)
    try:
        async with reader_of(cluster, group_id="g", enable_auto_commit=False) as consumer:
            await read(consumer, 1)
            assert await consumer.poll(2_000) == []
            await consumer.commit()
        assert cluster.groups.committed("g", "orders") == 4
    finally:
        cluster.groups.close()


async def test_a_range_has_the_committed_records_only() -> None:
    cluster = cluster_with_orders()
    write(cluster, 7, b"aborted")
    write(cluster, 8, b"kept")
    end(cluster, 7, commit=False)
    end(cluster, 8, commit=True)
    async with reader_of(cluster) as consumer:
        parts = [part async for part in consumer.read_columns(ORDERS, 0, 4)]
        assert [value for part in parts for value in part.columns.values] == [b"kept"]
        assert parts[-1].next_offset == 4
        batches = [read_header(batch) async for batch in consumer.read_batches(ORDERS, 0, 4)]
        assert [each.producer_id for each in batches if not each.is_control] == [8]


async def test_a_range_that_reaches_into_an_open_transaction_is_not_read_to_its_end() -> None:
    cluster = cluster_with_orders()
    write(cluster, 7, b"open")
    async with reader_of(cluster) as consumer:
        with pytest.raises(Refusal, match="its last stable offset was 0"):
            _ = [part async for part in consumer.read_columns(ORDERS, 0, 1, timeout_ms=2_000)]


# --- batches as they are stored ---------------------------------------------------------------------------------------


async def test_stored_batches_tell_markers_aborted_and_committed_records_apart() -> None:
    cluster = cluster_with_orders()
    for producer_id, value in ((7, b"aborted"), (8, b"kept")):
        write(cluster, producer_id, value)
    for producer_id in (7, 8):
        end(cluster, producer_id, commit=producer_id == 8)
    async with reader_of(cluster) as consumer:
        found = await stored(consumer, 4)
    assert [(each.base_offset, each.is_aborted, each.marker) for each in found] == [
        (0, True, ""),
        (1, False, ""),
        (2, False, "abort"),
        (3, False, "commit"),
    ]
    assert [each.is_transactional for each in found] == [True] * 4
    assert found[1].records().values == [b"kept"]


async def test_a_stored_batch_of_more_than_was_asked_for_takes_no_memory() -> None:
    cluster = cluster_with_orders()
    bomb = build_batch([Record(-1, 0, None, bytes(1 << 20))] * 4, Codec.GZIP)
    cluster.partition("orders").append(bomb)
    async with reader_of(cluster) as consumer:
        (found,) = await stored(consumer, 1)
    assert found.size_bytes < 10_000
    with pytest.raises(InvalidBatch, match="decompresses to more than 1000 bytes"):
        found.records(bytes_max=1_000)
    with pytest.raises(InvalidBatch, match="holds 4 records, more than 3"):
        found.records(records_max=3)
    assert len(found.records().offsets) == 4


async def test_stored_batches_are_of_consumers_without_a_group() -> None:
    cluster = cluster_with_orders()
    async with consumer_of(cluster, group_id="g") as consumer:
        with pytest.raises(SubscriptionConflict, match=r"no group\.id"):
            await consumer.poll_stored()


async def stored(consumer: Consumer, count: int) -> list[StoredBatch]:
    found: list[StoredBatch] = []
    while len(found) < count:
        part = await consumer.poll_stored(5_000)
        assert part, found
        found += part
    return found
