"""One broker of three is away when topics, groups and transactions are first used: everything works without it.

It comes back, joins every ISR, and another broker may then be lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final

import confluent_kafka as ck
import pytest

from kraft.client import Admin, TopicPartition
from kraft.testing import Cluster
from tests.support.waiting import until, until_in_sync

RECORDS: Final = 200_000
DEADLINE_S: Final = 120.0
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")

SETTINGS: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "broker.session.timeout.ms": "2000",
    # Five times a client reads in a group, and would wait for three seconds.
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(name="cluster")
def _cluster() -> Iterator[Cluster]:
    with Cluster(3, overrides=SETTINGS) as cluster:
        yield cluster


def settings(cluster: Cluster, more: Mapping[str, str | int | bool] | None = None) -> dict[str, str | int | bool]:
    return {"bootstrap.servers": cluster.kafka_bootstrap_servers, "log_level": 0, **(more or {})}


def read_by_group(cluster: Cluster, topics: list[str], group: str, records: int) -> set[bytes]:
    """Read with a new group until there are so many different values, or the deadline passes."""
    consumer = ck.Consumer(
        settings(cluster, {"group.id": group, "auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    )
    found: set[bytes] = set()
    try:
        consumer.subscribe(topics)
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < records and time.monotonic() < deadline:
            for message in consumer.consume(10_000, timeout=1.0):
                value = message.value()
                assert message.error() is None, message.error()
                assert value is not None
                found.add(value)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def produce(cluster: Cluster, topic: str, values: range, more: Mapping[str, str | int | bool] | None = None) -> None:
    """Produce the numbers; each must be acknowledged. With a transactional id, in one transaction."""
    failures: list[object] = []

    def delivered(error: ck.KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error)

    producer = ck.Producer(settings(cluster, {"acks": "all", "linger.ms": 20, **(more or {})}))
    is_transactional = "transactional.id" in (more or {})
    if is_transactional:
        producer.init_transactions(60)
        producer.begin_transaction()
    for number in values:
        while True:
            try:
                producer.produce(topic, b"%d" % number, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failures, failures[0]
    if is_transactional:
        producer.commit_transaction(60)


def numbers(values: range) -> set[bytes]:
    return {b"%d" % number for number in values}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_first_topics_groups_and_transactions_while_a_broker_is_away_outlive_another_one(cluster: Cluster) -> None:
    cluster.node(3).kill()
    with Admin(cluster.bootstrap_servers) as admin:
        until(lambda: admin.describe_brokers([3])[0].fenced, "broker 3 is not fenced")

        # The topic is created by hand, the other one automatically; both have a replica on the broker that is away.
        admin.create_topic("flights", partitions=6, replication_factor=3)
        produce(cluster, "flights", range(RECORDS))
        assert read_by_group(cluster, ["flights"], "first", RECORDS) == numbers(range(RECORDS))

        paid = range(RECORDS, RECORDS + 1_000)
        produce(cluster, "payments", paid, {"transactional.id": "till-1"})
        assert read_by_group(cluster, ["payments"], "second", len(paid)) == numbers(paid)
        admin.create_partitions("flights", 7)

        topics = ["flights", "payments", *INTERNAL]
        for described in admin.describe_topics(topics):
            for partition in described.metadata.partitions:
                assert sorted(partition.replica_nodes) == [1, 2, 3]
                assert sorted(partition.isr_nodes) == [1, 2]
                assert partition.replica_nodes[-1] == 3

        cluster.start()
        cluster.wait_ready()
        for topic in topics:
            until_in_sync(admin, topic)
        cluster.node(1).kill()
        until(lambda: admin.describe_brokers([1])[0].fenced, "broker 1 is not fenced")

    both = numbers(range(RECORDS + 1_000))
    assert read_by_group(cluster, ["flights", "payments"], "third", len(both)) == both
    # The first group goes on behind what it committed while broker 3 was away.
    more = range(RECORDS + 1_000, RECORDS + 2_000)
    produce(cluster, "flights", more)
    assert read_by_group(cluster, ["flights"], "first", len(more)) == numbers(more)
    later = range(RECORDS + 2_000, RECORDS + 2_100)
    produce(cluster, "payments", later, {"transactional.id": "till-1"})
    assert read_by_group(cluster, ["payments"], "second", len(later)) == numbers(later)


def test_a_reassignment_onto_a_broker_that_is_away_completes_when_it_is_back(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic("orders", partitions=1, replication_factor=2, configs={"min.insync.replicas": "1"})
        (described,) = admin.describe_topics(["orders"])
        replicas = described.metadata.partitions[0].replica_nodes
        (spare,) = {1, 2, 3} - set(replicas)
        cluster.node(spare).kill()
        until(lambda: admin.describe_brokers([spare])[0].fenced, "the broker is not fenced")
        where = TopicPartition("orders", 0)
        assert admin.alter_partition_reassignments({where: [replicas[0], spare]}) == {where: None}
        produce(cluster, "orders", range(100))
        assert len(admin.list_partition_reassignments()) == 1
        cluster.start()
        cluster.wait_ready()
        until(lambda: not admin.list_partition_reassignments(), "the reassignment does not end")
        (described,) = admin.describe_topics(["orders"])
        assert sorted(described.metadata.partitions[0].isr_nodes) == sorted([replicas[0], spare])
