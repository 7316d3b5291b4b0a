"""A node keeps no records in its own memory: the operating system's page cache is the only cache."""

from __future__ import annotations

import os
from collections.abc import Callable

from kraft.client import Consumer, Producer, TopicPartition
from kraft.testing import Cluster
from tests.support.records import create_topic

MIB = 1 << 20
WARM_UP, LARGE = 16 * MIB, 96 * MIB
VALUE_BYTES = 16 * 1024
# What a request, its answer and the allocator take at the most; a third of what is written.
GROWTH_MAX = 32 * MIB


def test_the_memory_of_a_node_does_not_grow_with_what_is_written_and_read() -> None:
    with Cluster(nodes=1) as cluster:
        create_topic(cluster.bootstrap_servers, "small", partitions=1, replication_factor=1)
        create_topic(cluster.bootstrap_servers, "large", partitions=1, replication_factor=1)
        resident: list[int] = []

        def look() -> None:
            resident.append(cluster.node(1).resident_bytes())

        write(cluster, "small", WARM_UP, look)
        read(cluster, "small", WARM_UP, look)
        before = max(resident)
        resident.clear()

        write(cluster, "large", LARGE, look)
        for _ in range(2):
            read(cluster, "large", LARGE, look)
        assert len(resident) > 100
        assert max(resident) - before < GROWTH_MAX, f"{before:,} bytes before, then at most {max(resident):,}"


def write(cluster: Cluster, topic: str, size_bytes: int, look: Callable[[], None]) -> None:
    # Nothing that could be compressed, or be the same object twice.
    with Producer(cluster.bootstrap_servers) as producer:
        for _ in range(0, size_bytes, MIB):
            sent = [producer.send(topic, os.urandom(VALUE_BYTES)) for _ in range(MIB // VALUE_BYTES)]
            for receipt in sent:
                receipt.result(timeout=30)
            look()


def read(cluster: Cluster, topic: str, size_bytes: int, look: Callable[[], None]) -> None:
    partition = TopicPartition(topic, 0)
    with Consumer(cluster.bootstrap_servers, fetch_max_bytes=MIB, max_partition_fetch_bytes=MIB) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        got = 0
        while got < size_bytes:
            records = consumer.poll(timeout_ms=30_000)
            assert records, f"{got:,} of {size_bytes:,} bytes came"
            got += sum(len(record.value or b"") for record in records)
            look()
