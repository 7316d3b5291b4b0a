"""Clients of a simulated cluster, and records for them to read."""

from __future__ import annotations

import asyncio
from typing import Any

from kraft.client.aio.admin import Admin
from kraft.client.aio.consumer import Consumer
from kraft.client.model.values import ConsumerRecord
from kraft.log.format.compression import Codec
from kraft.log.format.record_batch import build_batch
from kraft.log.format.record_codec import Record
from tests.support.client.fake_cluster import FakeCluster
from tests.support.virtual_time import virtual_network


def admin_of(cluster: FakeCluster, **settings: Any) -> Admin:
    return Admin(cluster.bootstrap_servers, network=virtual_network(cluster), **settings)


def consumer_of(cluster: FakeCluster, **settings: Any) -> Consumer:
    return Consumer(cluster.bootstrap_servers, network=virtual_network(cluster), **settings)


def fill(cluster: FakeCluster, topic: str, count: int, partition: int = 0, batch_records: int = 10) -> None:
    """Records whose values are their offsets and whose timestamps are ten times them."""
    log = cluster.partition(topic, partition)
    start = log.end_offset
    for first in range(start, start + count, batch_records):
        offsets = range(first, min(first + batch_records, start + count))
        log.append(build_batch([Record(-1, 10 * each, b"key", b"%d" % each) for each in offsets], Codec.LZ4))
    cluster.news()


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(60):
        while len(records) < count:
            records += await consumer.poll()
    return records
