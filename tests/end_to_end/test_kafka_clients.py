"""Clients of Kafka, unmodified, against three real nodes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from kraft.client import Admin
from kraft.testing import Cluster
from tests.end_to_end.kafka_programs import console_consumer, console_producer, kafkajs, kcat

DEADLINE_S = 30
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


def create(cluster: Cluster, topic: str, partitions: int = 1) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions, 3)


def expected(client: str, codec: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values: null ones, empty ones, and some of 200 kB together."""
    name = f"{client} {codec}".encode()
    return [(name, b"value %d " % number * 100) for number in range(20)] + [(None, name), (name, None), (b"", b"")]


def send_by_confluent(servers: str, topic: str, codec: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "compression.type": codec, "enable.idempotence": True, "linger.ms": 20}
    )
    outcomes: list[object] = []
    for key, value in expected("confluent", codec):
        producer.produce(topic, value, key, partition=0, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert set(outcomes) == {None}


def send_by_kafka_python(servers: str, topic: str, codec: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers.split(","), compression_type=None if codec == "none" else codec, linger_ms=20
    )
    pending = [producer.send(topic, value, key, partition=0) for key, value in expected("kafka-python", codec)]
    offsets = [future.get(DEADLINE_S).offset for future in pending]
    assert offsets == sorted(offsets)
    producer.close(timeout=DEADLINE_S)


def send_by_aiokafka(servers: str, topic: str, codec: str) -> None:
    async def send() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers, compression_type=None if codec == "none" else codec, enable_idempotence=True
        )
        async with asyncio.timeout(DEADLINE_S), producer:
            for key, value in expected("aiokafka", codec):
                await producer.send(topic, value, key, partition=0)

    asyncio.run(send())


def confluent_consumer(servers: str) -> confluent_kafka.Consumer:
    # Without commits: there is no coordinator yet to take them.
    return confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "nobody", "enable.auto.commit": False})


def read_by_confluent(servers: str, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    consumer = confluent_consumer(servers)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[tuple[bytes | None, bytes | None]] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), DEADLINE_S)
        assert messages, f"only {len(found)} came"
        assert [message.error() for message in messages if message.error()] == []
        found += [(_bytes(message.key()), _bytes(message.value())) for message in messages]
    consumer.close()
    return found


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def read_by_kafka_python(servers: str, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=servers.split(","),
        auto_offset_reset="earliest",
        consumer_timeout_ms=DEADLINE_S * 1_000,
    )
    found: list[Any] = []
    for record in consumer:
        found.append((record.key, record.value))
        if len(found) == count:
            break
    consumer.close()
    return found


def read_by_aiokafka(servers: str, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    async def read() -> list[Any]:
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
        async with asyncio.timeout(DEADLINE_S), consumer:
            return [(record.key, record.value) for record in [await consumer.getone() for _ in range(count)]]

    return asyncio.run(read())


SENDERS = {"confluent": send_by_confluent, "kafka-python": send_by_kafka_python, "aiokafka": send_by_aiokafka}
READERS = {"confluent": read_by_confluent, "kafka-python": read_by_kafka_python, "aiokafka": read_by_aiokafka}


@pytest.mark.parametrize("client", SENDERS)
def test_what_one_client_sends_in_any_codec_each_other_one_reads(cluster: Cluster, client: str) -> None:
    topic = f"from-{client}"
    create(cluster, topic)
    for codec in CODECS:
        SENDERS[client](cluster.kafka_bootstrap_servers, topic, codec)
    sent = [pair for codec in CODECS for pair in expected(client, codec)]
    for read in READERS.values():
        assert read(cluster.kafka_bootstrap_servers, topic, len(sent)) == sent


def test_a_topic_is_created_by_the_first_who_writes_to_it(cluster: Cluster) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.kafka_bootstrap_servers.split(","))
    assert producer.send("made-on-the-way", b"first").get(DEADLINE_S).offset == 0
    producer.close(timeout=DEADLINE_S)


def test_clients_are_told_the_cluster_as_it_is(cluster: Cluster) -> None:
    create(cluster, "told", partitions=3)
    consumer = confluent_consumer(cluster.kafka_bootstrap_servers)
    metadata = consumer.list_topics(timeout=DEADLINE_S)
    assert metadata.cluster_id == cluster.cluster_id
    addresses = {f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()}
    assert addresses == set(cluster.kafka_bootstrap_servers.split(","))
    partitions = metadata.topics["told"].partitions
    assert {number: sorted(partition.replicas) for number, partition in partitions.items()} == {
        number: [1, 2, 3] for number in range(3)
    }
    assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition("told", 0), timeout=DEADLINE_S) == (0, 0)
    consumer.close()


def test_records_of_a_megabyte_and_a_thousand_headers_come_back(cluster: Cluster) -> None:
    create(cluster, "large")
    servers = cluster.kafka_bootstrap_servers
    headers: list[tuple[str, str | bytes | None]] = [(f"name-{number}", b"%d" % number) for number in range(1_000)]
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "message.max.bytes": 2_000_000})
    producer.produce("large", bytes(1_000_000), headers=headers, timestamp=1_700_000_000_123, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    consumer = kafka.KafkaConsumer(
        "large", bootstrap_servers=servers.split(","), auto_offset_reset="earliest", max_partition_fetch_bytes=1_000
    )
    record = next(iter(consumer))
    consumer.close()
    assert (len(record.value), record.headers, record.timestamp) == (1_000_000, headers, 1_700_000_000_123)


# --- programs of their own ---------------------------------------------------------------------------------------

LINES = [f"line {number} äß€" for number in range(50)]


def values_of(topic: str, cluster: Cluster, count: int) -> list[str]:
    return [(value or b"").decode() for _, value in read_by_confluent(cluster.kafka_bootstrap_servers, topic, count)]


@pytest.mark.parametrize("codec", CODECS)
def test_kcat_writes_and_reads(cluster: Cluster, codec: str) -> None:
    topic, servers = f"by-kcat-{codec}", cluster.kafka_bootstrap_servers
    create(cluster, topic)
    kcat(servers, "-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, lines=[f"key:{line}" for line in LINES])
    read = kcat(servers, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o %k %s\\n")
    assert read == [f"{offset} key {line}" for offset, line in enumerate(LINES)]
    assert values_of(topic, cluster, len(LINES)) == LINES


def test_kcat_is_told_the_cluster_as_it_is(cluster: Cluster) -> None:
    create(cluster, "listed-by-kcat", partitions=2)
    (told,) = kcat(cluster.kafka_bootstrap_servers, "-L", "-J", "-t", "listed-by-kcat")
    metadata = json.loads(told)
    assert {broker["name"] for broker in metadata["brokers"]} == set(cluster.kafka_bootstrap_servers.split(","))
    (topic,) = metadata["topics"]
    assert [len(partition["isrs"]) for partition in topic["partitions"]] == [3, 3]


def test_kcat_finds_an_offset_by_its_time(cluster: Cluster) -> None:
    create(cluster, "timed-by-kcat")
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.kafka_bootstrap_servers})
    for number in range(10):
        producer.produce("timed-by-kcat", b"%d" % number, partition=0, timestamp=1_700_000_000_000 + 1_000 * number)
    assert producer.flush(DEADLINE_S) == 0
    (found,) = kcat(cluster.kafka_bootstrap_servers, "-Q", "-t", "timed-by-kcat:0:1700000003500")
    assert found.endswith("offset 4")


# Fetching the jars comes first, once.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("properties", [(), ("compression.type=zstd",), ("enable.idempotence=false", "acks=1")])
def test_javas_consoles_write_and_read(cluster: Cluster, properties: tuple[str, ...]) -> None:
    topic = "by-java-" + "-".join(properties).translate(str.maketrans("=", "-"))
    create(cluster, topic)
    console_producer(cluster.kafka_bootstrap_servers, topic, LINES, *properties)
    assert values_of(topic, cluster, len(LINES)) == LINES
    send_by_confluent(cluster.kafka_bootstrap_servers, topic, "lz4")
    read = console_consumer(cluster.kafka_bootstrap_servers, topic, len(LINES) + 1)
    assert read[: len(LINES)] == LINES
    assert len(read) == len(LINES) + 1


@pytest.mark.timeout(180)
@pytest.mark.parametrize("codec", ["None", "GZIP"])
def test_kafkajs_writes(cluster: Cluster, codec: str) -> None:
    """Its consumers are always of a group."""
    topic = f"by-kafkajs-{codec}"
    create(cluster, topic)
    kafkajs(
        """
        const kafka = new Kafka({ brokers: facts.servers, logLevel: logLevel.ERROR });
        const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
        await producer.connect();
        const messages = facts.lines.map(line => ({ key: 'key', value: line, partition: 0, headers: { a: 'b' } }));
        await producer.send({ topic: facts.topic, compression: CompressionTypes[facts.codec], messages });
        await producer.disconnect();
        const admin = kafka.admin();
        await admin.connect();
        const [end] = await admin.fetchTopicOffsets(facts.topic);
        if (end.high !== String(facts.lines.length)) throw new Error(`the topic ends at ${end.high}`);
        await admin.disconnect();
        """,
        servers=cluster.kafka_bootstrap_servers.split(","),
        topic=topic,
        lines=LINES,
        codec=codec,
    )
    assert values_of(topic, cluster, len(LINES)) == LINES
