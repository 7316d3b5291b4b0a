"""Clients of Kafka, unmodified, against three real nodes: what each of them writes, each other one reads."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import replace

import confluent_kafka
import kafka
import pytest

from kraft.client import Admin
from kraft.testing import Cluster
from tests.end_to_end.kafka.kafka_matrix import CLIENTS
from tests.end_to_end.kafka.kafka_readers import read_by_kafka_python
from tests.end_to_end.kafka.kafka_records import (
    LARGE_BYTES,
    Place,
    Record,
    Section,
    Stored,
    Trait,
    records_of,
    shown_without,
    traits_of,
)
from tests.end_to_end.kafka.known_topics import until_known
from tests.support.kafka.kafka_programs import console_producer, kafkajs, kcat
from tests.support.kafka.python_clients import ASKS_AGAIN
from tests.support.waiting import until

DEADLINE_S = 30
TOPIC = "everything"
FOR_EVER = {"retention.ms": "-1"}


def create(cluster: Cluster, topic: str, partitions: int = 1, configs: Mapping[str, str] = FOR_EVER) -> Place:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions, 3, dict(configs))
    until_known(cluster, topic, partitions)
    return Place.of(cluster, topic)


def confluent_consumer(servers: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "nobody", "enable.auto.commit": False})


# --- each with each other ----------------------------------------------------------------------------------------


class Written:
    """One partition that every client has written to, in each codec that it has, one after the other."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.sections: list[Section] = []
        self.skipped: dict[str, str] = {}
        for client in CLIENTS:
            try:
                for codec in CLIENTS[client].codecs:
                    self._write(client, codec)
            except pytest.skip.Exception as reason:
                # The others write all the same; what this one would have written is skipped for its reason.
                self.skipped[client] = str(reason)

    def of(self, writer: str, codecs: tuple[str, ...]) -> list[Section]:
        return [section for section in self.sections if section.client == writer and section.codec in codecs]

    def _write(self, client: str, codec: str) -> None:
        start = self.sections[-1].end if self.sections else 0
        records = tuple(record for record in records_of(client, codec) if CLIENTS[client].can_write(record))
        began_ms = time.time_ns() // 1_000_000
        CLIENTS[client].write(self.place, codec, records)
        self.sections.append(
            Section(
                client=client,
                codec=codec,
                start=start,
                end=start + len(records),
                records=records,
                began_ms=began_ms,
                ended_ms=time.time_ns() // 1_000_000,
            )
        )


@pytest.fixture(scope="module")
def written(cluster: Cluster) -> Written:
    return Written(create(cluster, TOPIC))


@pytest.fixture(scope="module")
def timestamps_ms(written: Written) -> list[int]:
    """Return timestamps by offset, read with kafka-python: clients that set them while sending do not report them."""
    return [stored.record.timestamp_ms for stored in read_by_kafka_python(written.place, written.sections)]


@pytest.fixture(scope="module", params=CLIENTS)
def reader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def read(written: Written, reader: str) -> dict[int, Stored]:
    """Return the records by offset that the reader has a codec for."""
    client = CLIENTS[reader]
    found = client.read(written.place, [each for each in written.sections if each.codec in client.codecs])
    offsets = [stored.offset for stored in found]
    assert offsets == sorted(set(offsets))
    return {stored.offset: stored for stored in found}


# The first to ask for them has Java's jars fetched, writes everything, and has it read.
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("writer", CLIENTS)
def test_what_one_client_sends_in_any_codec_each_other_one_reads(
    written: Written, timestamps_ms: list[int], read: dict[int, Stored], reader: str, writer: str
) -> None:
    if writer in written.skipped:
        pytest.skip(written.skipped[writer])
    sections = written.of(writer, CLIENTS[reader].codecs)
    assert sections
    for section in sections:
        offsets = range(section.start, section.end)
        expected = [
            as_shown(reader, record, record.timestamp_ms if CLIENTS[writer].has_own_timestamps else timestamps_ms[at])
            for at, record in zip(offsets, section.records, strict=True)
        ]
        assert [read[at].record for at in offsets if at in read] == expected, f"{writer}, {section.codec}"
        assert {read[at].partition for at in offsets} == {written.place.partition}
        assert not any(read[at].has_append_time for at in offsets)


def as_shown(reader: str, record: Record, timestamp_ms: int) -> Record:
    shown = shown_without(record, tuple(CLIENTS[reader].cannot_show))
    return Record(key=shown.key, value=shown.value, headers=shown.headers, timestamp_ms=timestamp_ms)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("writer", [name for name, client in CLIENTS.items() if not client.has_own_timestamps])
def test_a_client_that_takes_no_timestamp_says_when_it_sent(
    written: Written, timestamps_ms: list[int], writer: str
) -> None:
    if writer in written.skipped:
        pytest.skip(written.skipped[writer])
    for section in written.of(writer, CLIENTS[writer].codecs):
        for offset in range(section.start, section.end):
            assert section.began_ms <= timestamps_ms[offset] <= section.ended_ms


def test_every_trait_of_a_record_is_written_and_shown_by_somebody() -> None:
    """So that what a client cannot do hides nothing that nobody does."""
    records = records_of("somebody", "none")
    assert {trait for record in records for trait in traits_of(record)} == set(Trait)
    for trait in Trait:
        assert any(trait not in client.cannot_write for client in CLIENTS.values())
        assert any(trait not in client.cannot_show for client in CLIENTS.values())
    assert max(len(record.value or b"") for record in records) == LARGE_BYTES


# --- the broker's timestamps -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stamped(cluster: Cluster) -> tuple[Place, Section]:
    """A batch that was stored with the time of its appending in the place of the times in it."""
    place = create(cluster, "stamped", configs={"message.timestamp.type": "LogAppendTime"})
    records = tuple(replace(record, timestamp_ms=1) for record in records_of("confluent", "gzip")[:3])
    began_ms = time.time_ns() // 1_000_000
    CLIENTS["confluent"].write(place, "gzip", records)
    ended_ms = time.time_ns() // 1_000_000
    return place, Section(
        client="confluent", codec="gzip", start=0, end=3, records=records, began_ms=began_ms, ended_ms=ended_ms
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("reader", CLIENTS)
def test_each_client_reads_the_time_of_appending_where_that_is_what_a_topic_keeps(
    stamped: tuple[Place, Section], reader: str
) -> None:
    place, section = stamped
    found = CLIENTS[reader].read(place, [section])
    (timestamp_ms,) = {stored.record.timestamp_ms for stored in found}
    assert section.began_ms <= timestamp_ms <= section.ended_ms
    expected = [as_shown(reader, record, timestamp_ms) for record in section.records]
    assert [stored.record for stored in found] == expected
    assert {stored.has_append_time for stored in found} == ({None} if reader == "kcat" else {True})


def test_a_producer_gets_the_append_time(cluster: Cluster) -> None:
    servers = create(cluster, "told-the-time", configs={"message.timestamp.type": "LogAppendTime"}).kafka_servers
    began_ms = time.time_ns() // 1_000_000
    producer = kafka.KafkaProducer(bootstrap_servers=servers.split(","))
    told_ms = producer.send("told-the-time", b"value", timestamp_ms=1).get(DEADLINE_S).timestamp
    producer.close(timeout=DEADLINE_S)
    assert began_ms <= told_ms <= time.time_ns() // 1_000_000
    confluents: list[tuple[int, int]] = []
    other = confluent_kafka.Producer({"bootstrap.servers": servers})
    other.produce(
        "told-the-time", b"value", timestamp=1, on_delivery=lambda _, message: confluents.append(message.timestamp())
    )
    assert other.flush(DEADLINE_S) == 0
    ((kind, at_ms),) = confluents
    assert kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
    assert told_ms <= at_ms <= time.time_ns() // 1_000_000


# --- what clients ask for ----------------------------------------------------------------------------------------


def test_a_topic_is_created_by_the_first_who_writes_to_it(cluster: Cluster) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.kafka_bootstrap_servers.split(","))
    assert producer.send("made-on-the-way", b"first").get(DEADLINE_S).offset == 0
    producer.close(timeout=DEADLINE_S)


def test_clients_get_the_metadata_of_the_cluster(cluster: Cluster) -> None:
    create(cluster, "told", partitions=3)
    consumer = confluent_consumer(cluster.kafka_bootstrap_servers)
    answers = []

    def is_listed() -> bool:
        # It may ask a broker that has not heard of the topic yet.
        answers.append(consumer.list_topics(timeout=DEADLINE_S))
        return "told" in answers[-1].topics

    until(is_listed, "the topic is not listed")
    metadata = answers[-1]
    assert metadata.cluster_id == cluster.cluster_id
    addresses = {f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()}
    assert addresses == set(cluster.kafka_bootstrap_servers.split(","))
    partitions = metadata.topics["told"].partitions
    assert {number: sorted(partition.replicas) for number, partition in partitions.items()} == {
        number: [1, 2, 3] for number in range(3)
    }
    assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition("told", 0), timeout=DEADLINE_S) == (0, 0)
    consumer.close()


def test_a_client_asks_which_metrics_are_wanted_and_is_told_none_for_five_minutes(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"bootstrap.servers": cluster.kafka_bootstrap_servers, "debug": "telemetry"}
    caplog.set_level(logging.DEBUG, __name__)
    producer = confluent_kafka.Producer(settings, logger=logging.getLogger(__name__))

    def answered() -> list[str]:
        # The client's log arrives when it is polled.
        producer.poll(0.05)
        return [line for line in caplog.messages if "Handled GetTelemetrySubscriptions" in line]

    until(lambda: bool(answered()), "the client did not get an answer")
    (answer,) = answered()
    assert "after 300000000 microseconds" in answer
    assert "err = Success, metrics = 0" in answer
    producer.close()


def test_a_record_with_a_thousand_headers_larger_than_a_fetch_may_be_comes_back(cluster: Cluster) -> None:
    servers = create(cluster, "large").kafka_servers
    headers: list[tuple[str, str | bytes | None]] = [(f"name-{number}", b"%d" % number) for number in range(1_000)]
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "message.max.bytes": 2_000_000})
    producer.produce("large", bytes(1_000_000), headers=headers, timestamp=1_700_000_000_123, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    consumer = kafka.KafkaConsumer(
        "large",
        bootstrap_servers=servers.split(","),
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=1_000,
        **ASKS_AGAIN,
    )
    record = next(iter(consumer))
    consumer.close()
    assert (len(record.value), record.headers, record.timestamp) == (1_000_000, headers, 1_700_000_000_123)


# Fetching the jars comes first, once.
@pytest.mark.timeout(300)
def test_javas_console_writes_without_idempotence(cluster: Cluster) -> None:
    place = create(cluster, "without-idempotence")
    lines = [f"line {number} äß€".encode() for number in range(50)]
    properties = ("enable.idempotence=false", "acks=1")
    console_producer(
        place.kafka_servers,
        place.topic,
        b"".join(line + b"\n" for line in lines),
        *(word for each in properties for word in ("--command-property", each)),
    )
    section = Section(client="java", codec="none", start=0, end=len(lines), records=(), began_ms=0, ended_ms=0)
    assert [stored.record.value for stored in read_by_kafka_python(place, [section])] == lines


def test_kcat_lists_the_cluster(cluster: Cluster) -> None:
    servers = create(cluster, "listed-by-kcat", partitions=2).kafka_servers
    metadata = json.loads(kcat(servers, "-L", "-J", "-t", "listed-by-kcat"))
    assert {broker["name"] for broker in metadata["brokers"]} == set(servers.split(","))
    (topic,) = metadata["topics"]
    assert [len(partition["isrs"]) for partition in topic["partitions"]] == [3, 3]


def test_kcat_finds_an_offset_by_its_time(cluster: Cluster) -> None:
    servers = create(cluster, "timed-by-kcat").kafka_servers
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(10):
        producer.produce("timed-by-kcat", b"%d" % number, partition=0, timestamp=1_700_000_000_000 + 1_000 * number)
    assert producer.flush(DEADLINE_S) == 0
    found = kcat(servers, "-Q", "-t", "timed-by-kcat:0:1700000003500")
    assert found.decode().strip().endswith("offset 4")


# Fetching it comes first, once.
@pytest.mark.timeout(300)
def test_kafkajs_gets_the_ends_of_a_topic_and_offsets_by_time(cluster: Cluster) -> None:
    servers = create(cluster, "asked-by-kafkajs").kafka_servers
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(10):
        producer.produce("asked-by-kafkajs", b"%d" % number, partition=0, timestamp=1_700_000_000_000 + 1_000 * number)
    assert producer.flush(DEADLINE_S) == 0
    answer = kafkajs(
        """
        const admin = new Kafka({ brokers: facts.servers, logLevel: logLevel.ERROR }).admin();
        await admin.connect();
        const ends = await admin.fetchTopicOffsets(facts.topic);
        const then = await admin.fetchTopicOffsetsByTimestamp(facts.topic, 1700000003500);
        const { topics } = await admin.fetchTopicMetadata({ topics: [facts.topic] });
        const { brokers, clusterId } = await admin.describeCluster();
        const isr = topics[0].partitions[0].isr;
        console.log(JSON.stringify({ ends, then, isr, brokers: brokers.length, clusterId }));
        await admin.disconnect();
        """,
        servers=servers.split(","),
        topic="asked-by-kafkajs",
    )
    found = json.loads(answer)
    assert sorted(found.pop("isr")) == [1, 2, 3]
    assert found == {
        "ends": [{"partition": 0, "offset": "10", "high": "10", "low": "0"}],
        "then": [{"partition": 0, "offset": "4"}],
        "brokers": 3,
        "clusterId": cluster.cluster_id,
    }
