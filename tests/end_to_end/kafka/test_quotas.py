"""Clients of several libraries keep to their quotas, on both listeners, and go on at once when these are removed.

Long measurements are in `python -m benchmarks.quotas`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event, Thread
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest
from confluent_kafka.admin import AdminClient

import kraft.client
from kraft.client import Admin, KraftError, TopicPartition
from kraft.model.list_offsets import LATEST_TIMESTAMP
from kraft.testing import Cluster
from tests.end_to_end.kafka.known_topics import until_known
from tests.support.kafka.kafka_jars import kafka_jars, run_kafka_tool
from tests.support.waiting import until

admin_values: Any = confluent_kafka.admin

RATE: float = 200_000
BURST = 10 * int(RATE)
RECORD = b"r" * 1_000
BEYOND_S = 2.5
"""What clients send takes so long beyond their burst."""

JAVA_PRODUCER = "org.apache.kafka.tools.ProducerPerformance"

MUTATIONS_AT_ONCE = 18
"""Not Kafka's default, which is 11."""

RECORDS = (BURST + int(RATE * BEYOND_S)) // len(RECORD)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, overrides={"controller.quota.window.num": str(MUTATIONS_AT_ONCE)}) as running:
        yield running


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("limited", 1, 1)
    until_known(cluster, "limited", 1)
    return "limited"


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    """Removes afterwards what a test has set for the default client id."""
    with Admin(cluster.bootstrap_servers, client_id="") as found:
        yield found
        keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
        found.alter_client_quotas({"client-id": None}, dict.fromkeys(keys))


def produce_with_librdkafka(cluster: Cluster, topic: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.kafka_bootstrap_servers, "client.id": "librdkafka", "batch.size": 8_000}
    )
    for _ in range(RECORDS):
        producer.produce(topic, RECORD)
    assert producer.flush(60) == 0


def produce_with_kafka_python(cluster: Cluster, topic: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.kafka_bootstrap_servers, client_id="kafka-python", batch_size=8_000, linger_ms=5
    )
    with closing(producer):
        for _ in range(RECORDS):
            producer.send(topic, RECORD)
        producer.flush(60)


def produce_with_kraft(cluster: Cluster, topic: str) -> None:
    with kraft.client.Producer(cluster.bootstrap_servers, client_id="kraft-sdk", batch_size=8_000) as producer:
        for _ in range(RECORDS):
            producer.send(topic, RECORD)
        producer.flush()


def consume_with_librdkafka(cluster: Cluster, topic: str) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.kafka_bootstrap_servers, "client.id": "librdkafka", "group.id": "limited"}
    )
    with closing(consumer):
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        left = RECORDS
        while left > 0:
            left -= len(consumer.consume(left, 1.0))


def consume_with_kafka_python(cluster: Cluster, topic: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=cluster.kafka_bootstrap_servers, client_id="kafka-python")
    with closing(consumer):
        place = kafka.TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        left = RECORDS
        while left > 0:
            left -= sum(map(len, consumer.poll(1_000).values()))


def consume_with_kraft(cluster: Cluster, topic: str) -> None:
    with kraft.client.Consumer(
        cluster.bootstrap_servers, client_id="kraft-sdk", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        left = RECORDS
        while left > 0:
            left -= len(consumer.poll(timeout_ms=1_000))


PRODUCE = (produce_with_librdkafka, produce_with_kafka_python, produce_with_kraft)
CONSUME = (consume_with_librdkafka, consume_with_kafka_python, consume_with_kraft)


def durations(programs: tuple[Callable[[Cluster, str], None], ...], cluster: Cluster, topic: str) -> dict[str, float]:
    """Return how long each took, beside the others."""

    def measured(program: Callable[[Cluster, str], None]) -> float:
        began_s = time.monotonic()
        program(cluster, topic)
        return time.monotonic() - began_s

    with ThreadPoolExecutor(len(programs)) as threads:
        return {
            program.__name__: took_s for program, took_s in zip(programs, threads.map(measured, programs), strict=True)
        }


def test_each_client_has_the_default_quota_for_itself(cluster: Cluster, topic: str, admin: Admin) -> None:
    admin.alter_client_quotas({"client-id": None}, {"producer_byte_rate": RATE, "consumer_byte_rate": RATE})
    for programs in (PRODUCE, CONSUME):
        took_s = durations(programs, cluster, topic)
        # The last requests are answered at once, and wait afterwards: that is a second of the quota, and some.
        assert all(each >= BEYOND_S - 1.5 for each in took_s.values()), took_s
        # With one quota for all three together it would be half a minute.
        assert all(each < 20 for each in took_s.values()), took_s


def produce_with_java(cluster: Cluster, topic: str) -> None:
    # One request is eight seconds of the quota of the test below.
    settings = (f"bootstrap.servers={cluster.kafka_bootstrap_servers}", "client.id=java", "batch.size=400000")
    size = ("--num-records", str(RECORDS), "--record-size", str(len(RECORD)), "--throughput", "-1")
    run_kafka_tool(kafka_jars(), JAVA_PRODUCER, "--topic", topic, *size, "--producer-props", *settings)


@pytest.mark.parametrize("produce", [*PRODUCE, produce_with_java])
def test_a_client_goes_on_when_its_quota_is_removed(
    cluster: Cluster, topic: str, admin: Admin, produce: Callable[[Cluster, str], None]
) -> None:
    def end() -> int:
        (found,) = admin.list_offsets({TopicPartition(topic, 0): LATEST_TIMESTAMP}).values()
        assert not isinstance(found, KraftError)
        return found.offset

    # What is sent would take more than half a minute.
    admin.alter_client_quotas({"client-id": None}, {"producer_byte_rate": RATE / 4})
    ended, beyond_burst = Event(), end() + BURST // 4 // len(RECORD)

    def program() -> None:
        produce(cluster, topic)
        ended.set()

    Thread(target=program, daemon=True).start()
    until(lambda: end() >= beyond_burst, f"{produce.__name__} used its burst")
    assert not ended.wait(0.5)
    admin.alter_client_quotas({"client-id": None}, {"producer_byte_rate": None})
    # Two seconds, and what the client itself needs on a busy machine.
    assert ended.wait(20)


def test_changes_of_topics_wait_until_the_quota_allows_them(cluster: Cluster, admin: Admin) -> None:
    admin.alter_client_quotas({"client-id": None}, {"controller_mutation_rate": 1})
    with Admin(cluster.bootstrap_servers, client_id="changes") as client:
        client.create_topic("changed-1", MUTATIONS_AT_ONCE + 2, 1)
        began_s = time.monotonic()
        # It is refused at first, and our client tries again.
        client.create_topic("changed-2", 1, 1)
        assert 0.5 < time.monotonic() - began_s < 20
    # A client of an older version gets what it asks for, and has to wait with its next request.
    old = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap_servers, "client.id": "old"})
    for number in (3, 4):
        began_s = time.monotonic()
        (future,) = old.create_topics([admin_values.NewTopic(f"changed-{number}", MUTATIONS_AT_ONCE + 2, 1)]).values()
        future.result(30)
    assert time.monotonic() - began_s > 1


def test_an_address_opens_no_more_connections_than_its_quota(cluster: Cluster, admin: Admin) -> None:
    host, _, port = cluster.kafka_bootstrap_servers.partition(":")
    admin.alter_client_quotas({"ip": "127.0.0.1"}, {"connection_creation_rate": 1})
    try:
        for _ in range(11):
            socket.create_connection((host, int(port)), timeout=10).close()
        # It is held for up to a second, and then closed.
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            began_s = time.monotonic()
            assert connection.recv(1) == b""
            assert time.monotonic() - began_s > 0.5
    finally:
        admin.alter_client_quotas({"ip": "127.0.0.1"}, {"connection_creation_rate": None})
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
