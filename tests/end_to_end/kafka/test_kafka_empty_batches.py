"""Batches without records, which a producer cannot send: compaction leaves them, and clients must get past them.

Of a producer that the log remembers, the last batch stays when all its records are outdated: its numbers are read off
it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import pairwise

import confluent_kafka
import kafka
import pytest

from kraft.client import Admin
from kraft.log.format.record_batch import BatchHeader, read_header
from kraft.testing import Cluster
from tests.end_to_end.kafka.kafka_matrix import CLIENTS, CODECS
from tests.end_to_end.kafka.kafka_records import Place, Record, Section
from tests.end_to_end.kafka.kafka_writers import write_by_confluent, write_by_kraft
from tests.support.log.segment_files import read_segments
from tests.support.waiting import until

DEADLINE_S = 30
OFTEN = {"log.cleaner.backoff.ms": "200"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, overrides=OFTEN) as running:
        yield running


def create_compacted(cluster: Cluster, topic: str) -> Place:
    settings = {"cleanup.policy": "compact", "segment.bytes": "10000", "min.cleanable.dirty.ratio": "0.01"}
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(topic, 1, 3, settings)
    return Place.of(cluster, topic)


def record(key: bytes, value: bytes) -> Record:
    return Record(key=key, value=value, timestamp_ms=time.time_ns() // 1_000_000)


def batches(cluster: Cluster, node_id: int, place: Place) -> list[BatchHeader]:
    """Return the batches of the node's replica, as on its disk."""
    directory = cluster.directory / f"node-{node_id}" / f"{place.topic}-{place.partition}"
    return [header for segment in read_segments(directory) for header in headers_of(segment)]


def headers_of(segment: bytes) -> Iterator[BatchHeader]:
    data, position = memoryview(segment), 0
    while position < len(data):
        header = read_header(data, position)
        yield header
        position += header.size_bytes


def until_empty(cluster: Cluster, place: Place, offsets: list[int]) -> None:
    """Every replica holds a batch without records at each of the offsets, and nowhere else."""

    def found() -> list[list[int]]:
        return [
            [batch.last_offset for batch in batches(cluster, node.node_id, place) if batch.record_count == 0]
            for node in cluster.nodes
        ]

    until(lambda: found() == [offsets] * len(cluster.nodes), found, DEADLINE_S)


# --- between records ---------------------------------------------------------------------------------------------

KEPT = (0, 4, 8, 9, 10)
EMPTIED = [1, 2, 3, 5, 6, 7]


def written_with_holes(cluster: Cluster, topic: str, codecs: tuple[str, ...]) -> tuple[Place, list[Record]]:
    """The five records that are left of eleven, each from a producer of its own; the others were outdated."""
    place = create_compacted(cluster, topic)
    chance = random.Random(3)
    named = {0: b"first", 4: b"in between", 9: b"filler", 10: b"last"}
    written: list[Record] = []
    for offset in range(11):
        # Two of those that are outdated are more than a segment holds, so there will be segments without a record.
        # The filler and the last one do not fit the segment before; what is last is never compacted.
        size = {0: 10, 4: 10, 9: 9_000, 10: 10}.get(offset, 6_000)
        written.append(record(named.get(offset, b"outdated"), chance.randbytes(size)))
        writer = write_by_confluent if offset % 2 else write_by_kraft
        writer(place, codecs[offset % len(codecs)], written[-1:])
    until_empty(cluster, place, EMPTIED)
    return place, [written[offset] for offset in KEPT]


@pytest.fixture(scope="module")
def in_every_codec(cluster: Cluster) -> tuple[Place, list[Record]]:
    return written_with_holes(cluster, "in-every-codec", CODECS)


# Java's jars and kafkajs are fetched by the first who asks for them.
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("reader", [name for name, client in CLIENTS.items() if client.codecs == CODECS])
def test_a_client_reads_what_compaction_left_past_batches_without_records(
    in_every_codec: tuple[Place, list[Record]], reader: str
) -> None:
    assert_read(reader, *in_every_codec)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("reader", [name for name, client in CLIENTS.items() if client.codecs != CODECS])
def test_a_client_with_few_codecs_reads_what_compaction_left_in_these(cluster: Cluster, reader: str) -> None:
    codecs = CLIENTS[reader].codecs
    assert_read(reader, *written_with_holes(cluster, f"in-codecs-of-{reader}", codecs))


def assert_read(reader: str, place: Place, kept: list[Record]) -> None:
    section = Section(client="", codec="", start=0, end=11, records=tuple(kept), began_ms=0, ended_ms=0)
    found = CLIENTS[reader].read(place, [section])
    assert [(stored.offset, stored.record) for stored in found] == list(zip(KEPT, kept, strict=True))


# --- from any offset ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_max", [1, 1 << 20])
def test_kafka_python_begins_at_any_offset_with_the_first_record_behind_it(
    in_every_codec: tuple[Place, list[Record]], bytes_max: int
) -> None:
    place, _ = in_every_codec
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=place.kafka_servers.split(","),
        enable_auto_commit=False,
        max_partition_fetch_bytes=bytes_max,
        consumer_timeout_ms=DEADLINE_S * 1_000,
    )
    partition = kafka.TopicPartition(place.topic, 0)
    consumer.assign([partition])
    for start in range(11):
        consumer.seek(partition, start)
        assert next(consumer).offset == next(offset for offset in KEPT if offset >= start)
    consumer.close()


def test_librdkafka_begins_at_any_offset_with_the_first_record_behind_it(
    in_every_codec: tuple[Place, list[Record]],
) -> None:
    place, _ = in_every_codec
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": place.kafka_servers, "group.id": "nobody", "enable.auto.commit": False}
    )
    for start in range(11):
        consumer.assign([confluent_kafka.TopicPartition(place.topic, 0, start)])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert message.offset() == next(offset for offset in KEPT if offset >= start)
    consumer.close()


def test_the_time_of_a_record_that_is_gone_leads_to_the_next_one(in_every_codec: tuple[Place, list[Record]]) -> None:
    place, kept = in_every_codec
    stamps_ms = dict(zip(KEPT, (record.timestamp_ms for record in kept), strict=True))
    consumer = kafka.KafkaConsumer(bootstrap_servers=place.kafka_servers.split(","), enable_auto_commit=False)
    partition = kafka.TopicPartition(place.topic, 0)
    for before, offset in pairwise(KEPT):
        found = consumer.offsets_for_times({partition: stamps_ms[before] + 1})[partition]
        assert (found.offset, found.timestamp) == (offset, stamps_ms[offset])
    consumer.close()
