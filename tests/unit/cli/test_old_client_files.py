"""Settings of the client files that Kafka's releases ship: each is taken as it stands, or its lines are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft.cli.client_settings import producer_settings
from kraft.cli.consumer_settings import consumer_settings
from kraft.cli.options import DEFAULT_BOOTSTRAP_SERVER
from kraft.client.model.errors import InvalidSetting
from kraft.client.model.settings import ConsumerSettings, ProducerSettings, settings_of
from kraft.log.format.compression import Codec
from tests.support.kafka.release_files import CONSUMER, CONSUMER_0_8, CONSUMER_4_NEXT, PRODUCER, PRODUCER_0_8


def producer(directory: Path, text: str) -> ProducerSettings:
    file = directory / "producer.properties"
    file.write_text(text)
    return settings_of(ProducerSettings, "", producer_settings(file, DEFAULT_BOOTSTRAP_SERVER))


def consumer(directory: Path, text: str) -> ConsumerSettings:
    file = directory / "consumer.properties"
    file.write_text(text)
    return settings_of(
        ConsumerSettings, "", consumer_settings(file, DEFAULT_BOOTSTRAP_SERVER, None, from_beginning=True)
    )


def without(text: str, *keys: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(keys))


@pytest.mark.parametrize("text", [PRODUCER, without(PRODUCER_0_8, "producer.type", "serializer.class")])
def test_a_producers_file_is_taken(tmp_path: Path, text: str) -> None:
    settings = producer(tmp_path, text)
    assert (settings.bootstrap_servers, settings.compression_type) == (("localhost:9092",), Codec.NONE)


def test_each_line_of_an_old_producers_file_that_means_nothing_is_answered(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting) as raised:
        producer(tmp_path, PRODUCER_0_8)
    assert str(raised.value).split("; ") == [
        "serializer.class: keys and values are bytes, so leave it out",
        "producer.type: a producer sends in the background, and flush waits for what was sent: leave it out",
    ]


def test_a_consumers_file_is_taken_with_its_group(tmp_path: Path) -> None:
    settings = consumer(tmp_path, CONSUMER)
    assert (settings.bootstrap_servers, settings.group_id) == (("localhost:9092",), "test-consumer-group")


def test_each_line_of_an_old_consumers_file_about_zookeeper_is_answered(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting) as raised:
        consumer(tmp_path, CONSUMER_0_8)
    assert str(raised.value) == (
        "zookeeper.connect: there is no ZooKeeper: give the brokers as bootstrap.servers; "
        "zookeeper.connection.timeout.ms: there is no ZooKeeper, so leave it out"
    )
    mended = without(CONSUMER_0_8, "zookeeper.") + "bootstrap.servers=localhost:9092\n"
    assert consumer(tmp_path, mended) == consumer(tmp_path, CONSUMER)


def test_what_does_not_exist_is_told_of_all_lines_at_once(tmp_path: Path) -> None:
    avro = CONSUMER_4_NEXT.replace("value.deserializer=org.apache.kafka.common.serialization.", "value.deserializer=")
    with pytest.raises(InvalidSetting) as raised:
        consumer(tmp_path, avro.replace("session.", "sesion."))
    assert [each.split(":")[0] for each in str(raised.value).split("; ") if ":" in each] == [
        "connections.max.idle.ms",
        "a consumer has no setting value.deserializer",
    ]
    assert "sesion.timeout.ms; did you mean session.timeout.ms?" in str(raised.value)
    settings = consumer(tmp_path, without(CONSUMER_4_NEXT, "connections."))
    assert (settings.group_protocol, settings.session_timeout_ms) == ("classic", 30_000)
