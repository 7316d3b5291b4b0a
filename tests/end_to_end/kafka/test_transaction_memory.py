"""Clients whose transactions have more partitions than the coordinator has memory for abort them, and go on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import Producer as KafkaProducer

from kraft.client import Admin, Consumer, Producer, TopicPartition, TransactionAborted
from kraft.testing import Cluster
from tests.support.waiting import until_stable

TOPIC = "orders"
PARTITIONS = 60
"""Their memory in a transaction is about twice the limit below."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, overrides={"transaction.state.partition.memory.max.bytes": "4500"}) as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topic(TOPIC, PARTITIONS, 1)
        yield running


def test_librdkafka_aborts_and_goes_on(cluster: Cluster) -> None:
    settings = {"bootstrap.servers": cluster.kafka_bootstrap_servers, "transactional.id": "large", "linger.ms": 200}
    producer = KafkaProducer(settings)
    producer.init_transactions(30)
    for expected in ([b"few"], [b"few", b"few"]):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, b"too many", partition=partition)
        with pytest.raises(KafkaException) as caught:
            producer.commit_transaction(30)
        assert caught.value.args[0].txn_requires_abort(), caught.value
        producer.abort_transaction(30)
        producer.begin_transaction()
        producer.produce(TOPIC, b"few", partition=0)
        producer.commit_transaction(30)
        until_stable(cluster.bootstrap_servers, [TOPIC])
        assert committed(cluster) == expected


def test_our_producer_aborts_and_goes_on(cluster: Cluster) -> None:
    with Producer(cluster.bootstrap_servers, transactional_id="ours") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.send(TOPIC, b"too many", partition=partition)
        with pytest.raises(TransactionAborted):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(TOPIC, b"few of ours", partition=0)
    until_stable(cluster.bootstrap_servers, [TOPIC])
    assert committed(cluster)[-1:] == [b"few of ours"]


def committed(cluster: Cluster) -> list[bytes | None]:
    """Return the committed values of the first partition."""
    with Consumer(
        cluster.bootstrap_servers, group_id=None, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        return [record.value for record in consumer.poll(60_000)]
