"""Transactional producers of a simulated cluster, and what they have done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kraft.client.aio.producer import Producer
from kraft.log.format.record_batch import read_header
from kraft.wire.schema.end_txn import EndTxnRequest
from tests.support.client.fake_cluster import FakeCluster, tp
from tests.support.client.fake_transactions import FakeTransactions
from tests.support.virtual_time import virtual_network
from tests.unit.client.clients import consumer_of


@asynccontextmanager
async def cluster_with(*topics: str, partitions: int = 1) -> AsyncIterator[tuple[FakeCluster, FakeTransactions]]:
    cluster = FakeCluster()
    cluster.transactions = FakeTransactions(cluster)
    for topic in topics or ("orders",):
        cluster.create(topic, partitions=partitions)
    try:
        yield cluster, cluster.transactions
    finally:
        cluster.transactions.close()


def producer_of(cluster: FakeCluster, transactional_id: str = "payments", **settings: Any) -> Producer:
    network = virtual_network(cluster)
    return Producer(cluster.bootstrap_servers, network=network, transactional_id=transactional_id, **settings)


async def committed(cluster: FakeCluster, topic: str = "orders") -> list[bytes | None]:
    """Return what a reader of committed records sees, up to the last stable offset."""
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "consumer_timeout_ms": 2_000}
    async with consumer_of(cluster, **settings) as consumer:
        consumer.assign([tp(topic, number) for number in range(len(cluster.topics[topic]))])
        return [record.value async for record in consumer]


async def pay(producer: Producer, *steps: bytes | int | Exception, **block: int) -> None:
    """Run one transaction: send and store records, sleep for seconds, or raise an error."""
    async with producer.transaction(**block):
        for step in steps:
            match step:
                case bytes():
                    await (await producer.send("orders", step))
                case int():
                    await asyncio.sleep(step)
                case _:
                    raise step


def epochs(cluster: FakeCluster, topic: str = "orders") -> list[tuple[int, int]]:
    """Return the epoch and first sequence of each batch with records."""
    headers = [read_header(batch) for batch in cluster.partition(topic).batches]
    return [(each.producer_epoch, each.base_sequence) for each in headers if not each.is_control]


def ends(transactions: FakeTransactions) -> list[tuple[int, bool]]:
    """Return the epoch and outcome of each EndTxn."""
    asked = [each for each in transactions.requests if isinstance(each, EndTxnRequest)]
    return [(each.producer_epoch, each.committed) for each in asked]
