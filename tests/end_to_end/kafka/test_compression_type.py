"""`compression.type`, of a topic and of brokers: clients in any codec, and one codec in the files of every replica."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # Its stubs leave out what it documents.
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as PlainNewTopic
from typer.testing import CliRunner

from kraft.cli.log import app
from kraft.client import Admin, ConfigSource
from kraft.testing import Cluster
from tests.end_to_end.kafka.kafka_matrix import CLIENTS, CODECS
from tests.end_to_end.kafka.kafka_readers import read_by_kafka_python
from tests.end_to_end.kafka.kafka_records import Place, Record, Section, records_of
from tests.end_to_end.kafka.kafka_writers import write_by_confluent
from tests.end_to_end.kafka.known_topics import until_known
from tests.support.waiting import until

DEADLINE_S = 30
WRITERS = ("confluent", "kafka-python", "kcat", "kraft")
TYPES = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")

# What is small once it is compressed may be large without.
ROOMY = {"retention.ms": "-1", "max.message.bytes": "4000000"}


@pytest.fixture(scope="module")
def confluent(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


def create(cluster: Cluster, admin: AdminClient, topic: str, **configs: str) -> Place:
    config = {**ROOMY, **{key.replace("_", "."): value for key, value in configs.items()}}
    admin.create_topics([NewTopic(topic, 1, 3, config=config)])[topic].result(DEADLINE_S)
    until_known(cluster, topic, 1)
    return Place.of(cluster, topic)


def codecs_on_disk(cluster: Cluster, topic: str) -> list[list[str]]:
    """Return the codec of every batch on every replica, as `kraft log dump` shows it."""
    return [
        [
            codec
            for segment in sorted(directory.glob("*.log"))
            for codec in re.findall(r"compresscodec: (\w+)", CliRunner().invoke(app, ["dump", str(segment)]).stdout)
        ]
        for directory in sorted(Path(cluster.directory).glob(f"**/{topic}-0"))
    ]


def check_codecs(cluster: Cluster, topic: str, codecs: list[str]) -> None:
    """Followers copy what the leader has."""
    until(lambda: codecs_on_disk(cluster, topic) == [codecs] * 3, lambda: codecs_on_disk(cluster, topic))


def alter(admin: AdminClient, topic: str, configs: Mapping[str, str]) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in configs.items()]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)


def read(place: Place, count: int) -> list[Record]:
    end = Section(client="", codec="", start=0, end=count, records=(), began_ms=0, ended_ms=0)
    return [stored.record for stored in read_by_kafka_python(place, [end])]


def one(value: str) -> list[Record]:
    return [Record(key=b"k", value=value.encode() * 200, timestamp_ms=1_600_000_000_000)]


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("wanted", TYPES)
def test_whatever_clients_send_is_stored_as_the_topic_wants_it(
    cluster: Cluster, confluent: AdminClient, wanted: str
) -> None:
    place = create(cluster, confluent, f"stored-{wanted}", compression_type=wanted)
    sent: list[Record] = []
    for name in WRITERS:
        client = CLIENTS[name]
        for codec in CODECS:
            records = [record for record in records_of(name, codec) if client.can_write(record)]
            if name == "kcat":
                # It has one run for each set of headers; those of librdkafka come from confluent-kafka as well.
                records = [record for record in records if not record.headers]
            client.write(place, codec, records)
            sent += [record if client.has_own_timestamps else _timeless(record) for record in records]
    found = read(place, len(sent))
    assert [
        _timeless(there) if record.timestamp_ms == 0 else there for record, there in zip(sent, found, strict=True)
    ] == sent
    leader = max(codecs_on_disk(cluster, place.topic), key=len)
    check_codecs(cluster, place.topic, leader)
    if wanted == "producer":
        assert set(leader) == set(CODECS)
    else:
        assert set(leader) == {"none" if wanted == "uncompressed" else wanted}


def _timeless(record: Record) -> Record:
    return Record(key=record.key, value=record.value, headers=record.headers, timestamp_ms=0)


@pytest.mark.parametrize("configs", [{"compression.type": "producer"}, {"compression.type": "gzip"}])
def test_kafka_python_creates_topics_that_say_it(cluster: Cluster, servers: str, configs: dict[str, str]) -> None:
    topic = f"plain-{configs['compression.type']}"
    admin = KafkaAdminClient(bootstrap_servers=servers.split(","))
    try:
        admin.create_topics([PlainNewTopic(topic, 1, 3, topic_configs=configs)])
    finally:
        admin.close()
    until_known(cluster, topic, 1)
    write_by_confluent(Place.of(cluster, topic), "zstd", one("v"))
    check_codecs(cluster, topic, ["zstd" if topic == "plain-producer" else "gzip"])


def test_it_is_altered_while_the_topic_is_in_use_and_described_with_its_source(
    cluster: Cluster, confluent: AdminClient
) -> None:
    place = create(cluster, confluent, "altered")
    write_by_confluent(place, "gzip", one("before"))
    alter(confluent, "altered", {"compression.type": "zstd", "compression.zstd.level": "19"})
    until(lambda: _stored_as(cluster, place, "gzip") == "zstd", "the topic's codec to be used")
    write_by_confluent(place, "none", one("after"))
    assert max(codecs_on_disk(cluster, "altered"), key=len)[-1] == "zstd"

    resource = ConfigResource(ResourceType.TOPIC, "altered")
    configs = confluent.describe_configs([resource])[resource].result(DEADLINE_S)
    assert (configs["compression.type"].value, configs["compression.type"].source) == ("zstd", 1)
    assert (configs["compression.zstd.level"].value, configs["compression.gzip.level"].value) == ("19", "-1")
    with Admin(cluster.bootstrap_servers) as admin:
        described = {entry.name: entry for entry in admin.describe_topic_configs("altered")}
    assert [
        (each.name, each.value, ConfigSource(each.source).name) for each in described["compression.type"].synonyms
    ] == [
        ("compression.type", "zstd", "DYNAMIC_TOPIC_CONFIG"),
        ("compression.type", "producer", "DEFAULT_CONFIG"),
    ]


def _stored_as(cluster: Cluster, place: Place, codec: str) -> str:
    """Send one more batch; return its codec on the leader."""
    write_by_confluent(place, codec, one("probe"))
    return max(codecs_on_disk(cluster, place.topic), key=len)[-1]


def test_brokers_have_a_default_for_topics_that_say_nothing(cluster: Cluster, confluent: AdminClient) -> None:
    silent, own = create(cluster, confluent, "silent"), create(cluster, confluent, "own", compression_type="gzip")
    with Admin(cluster.bootstrap_servers) as admin:
        admin.alter_broker_configs(None, {"compression.type": "lz4"})
        try:
            until(lambda: _stored_as(cluster, silent, "snappy") == "lz4", "the brokers' codec to be used")
            assert _stored_as(cluster, own, "snappy") == "gzip"
        finally:
            admin.alter_broker_configs(None, delete=["compression.type"])
    until(lambda: _stored_as(cluster, silent, "snappy") == "snappy", "no codec to be used any more")


def test_values_that_kafka_does_not_take_are_refused(cluster: Cluster, confluent: AdminClient) -> None:
    for key, value in (("compression.type", "none"), ("compression.gzip.level", "0"), ("compression.lz4.level", "18")):
        config = {key: value}
        with pytest.raises(confluent_kafka.KafkaException, match="expected"):
            confluent.create_topics([NewTopic("refused", 1, 3, config=config)])["refused"].result(DEADLINE_S)


@pytest.mark.timeout(120)
def test_an_idempotent_producer_keeps_its_order_through_the_thread(cluster: Cluster, confluent: AdminClient) -> None:
    """Many batches under way at once, each of which waits to be compressed anew."""
    place = create(cluster, confluent, "ordered", compression_type="zstd")
    records = [
        Record(key=b"%d" % number, value=b"%d" % number * 50, timestamp_ms=1_600_000_000_000) for number in range(8_000)
    ]
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": place.kafka_servers,
            "compression.type": "lz4",
            "enable.idempotence": True,
            "batch.num.messages": 100,
            "max.in.flight.requests.per.connection": 5,
        }
    )
    errors: list[object] = []
    for record in records:
        producer.produce(
            place.topic,
            record.value,
            record.key,
            partition=0,
            timestamp=record.timestamp_ms,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
        producer.poll(0)
    assert (producer.flush(DEADLINE_S), errors) == (0, [])
    assert read(place, len(records)) == records
