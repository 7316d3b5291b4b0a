"""Distinguishable records, published through the client and read back whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kraft.client import Admin, Consumer, Producer, TopicPartition
from tests.support.waiting import until_stable


def create_topic(bootstrap_servers: str, topic: str, *, partitions: int, replication_factor: int = 3) -> None:
    configs = {"min.insync.replicas": str(max(1, replication_factor - 1))}
    with Admin(bootstrap_servers) as admin:
        admin.create_topic(topic, partitions, replication_factor, configs)


def publish(bootstrap_servers: str, topic: str, numbers: Iterable[int]) -> None:
    """Publish one record for each number, keyed by it; on return every in-sync replica has them on disk."""
    with Producer(bootstrap_servers, acks="all", compression_type="lz4") as producer:
        sent = [producer.send(topic, b"%d" % number, key=b"%d" % (number % 17)) for number in numbers]
        assert producer.flush(timeout_ms=60_000)
        for future in sent:
            future.result(timeout=1)


def publish_in_transactions(
    bootstrap_servers: str, topic: str, partitions: int, transactions: Iterable[tuple[Iterable[int], bool]]
) -> None:
    """Publish the numbers of each transaction, spread over the partitions, and commit it if the second value is True.

    When it returns, every transaction has its markers.
    """
    with Producer(bootstrap_servers, transactional_id=topic) as producer:
        for numbers, is_committed in transactions:
            producer.begin_transaction()
            for number in numbers:
                producer.send(topic, b"%d" % number, partition=number % partitions)
            # An abort would drop what was not sent yet.
            producer.flush()
            if is_committed:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    until_stable(bootstrap_servers, [topic])


def read_all(bootstrap_servers: str, topic: str) -> Counter[int]:
    """Return how often each number is in the topic, over all partitions up to their ends."""
    found: Counter[int] = Counter()
    with Consumer(bootstrap_servers) as consumer:
        partitions = [TopicPartition(topic, partition) for partition in consumer.partitions_for(topic)]
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        for partition in partitions:
            for columns in consumer.read_columns(partition, begins[partition], ends[partition], timeout_ms=20_000):
                found.update(int(value or b"") for value in columns.columns.values)
    return found


def bounds(bootstrap_servers: str, partition: TopicPartition) -> tuple[int, int]:
    """Return the partition's first offset, and the one after its last."""
    with Consumer(bootstrap_servers) as consumer:
        return consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition]


def once_each(count: int) -> Counter[int]:
    return Counter(range(count))
