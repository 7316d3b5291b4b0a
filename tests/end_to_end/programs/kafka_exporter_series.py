"""The series that kafka_exporter makes of a cluster, asked over Kafka's protocol as it asks.

Facts of danielqsj/kafka_exporter's source: names, labels, and the answers that values are made of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient

DEADLINE_S: Final = 60


class Series(NamedTuple):
    name: str
    labels: tuple[tuple[str, str], ...]
    """In order."""


def series(name: str, **labels: str) -> Series:
    return Series(name, tuple(sorted(labels.items())))


Values = Iterator[tuple[Series, float]]
Offsets = dict[tuple[str, int], int]


def kafka_exporter_series(bootstrap_servers: str) -> dict[Series, float]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    metadata: Any = admin.list_topics(timeout=DEADLINE_S)
    found: dict[Series, float] = {series("kafka_brokers"): len(metadata.brokers)}
    for broker in metadata.brokers.values():
        found[series("kafka_broker_info", address=f"{broker.host}:{broker.port}", id=str(broker.id))] = 1
    places = [TopicPartition(name, each) for name, topic in metadata.topics.items() for each in topic.partitions]
    specs: Any = kafka_admin.OffsetSpec  # type: ignore[attr-defined]  # It is there, and its stubs do not say so.
    oldest, newest = _offsets(admin, places, specs.earliest()), _offsets(admin, places, specs.latest())
    for name, topic in metadata.topics.items():
        found.update(_of_topic(name, topic, oldest, newest))
    for group in admin.list_consumer_groups(request_timeout=DEADLINE_S).result().valid:
        found.update(_of_group(admin, group.group_id, newest))
    return found


def _offsets(admin: AdminClient, places: list[TopicPartition], spec: Any) -> Offsets:
    asked = admin.list_offsets(dict.fromkeys(places, spec), request_timeout=DEADLINE_S)
    return {(place.topic, place.partition): future.result().offset for place, future in asked.items()}


def _of_topic(name: str, topic: Any, oldest: Offsets, newest: Offsets) -> Values:
    yield series("kafka_topic_partitions", topic=name), len(topic.partitions)
    for number, partition in topic.partitions.items():
        for value_of, value in (
            ("current_offset", newest[name, number]),
            ("oldest_offset", oldest[name, number]),
            ("leader", partition.leader),
            ("leader_is_preferred", partition.leader == partition.replicas[0]),
            ("replicas", len(partition.replicas)),
            ("in_sync_replica", len(partition.isrs)),
            ("under_replicated_partition", len(partition.isrs) < len(partition.replicas)),
        ):
            yield series(f"kafka_topic_partition_{value_of}", topic=name, partition=str(number)), value


def _of_group(admin: AdminClient, group: str, newest: Offsets) -> Values:
    described = admin.describe_consumer_groups([group], request_timeout=DEADLINE_S)[group].result()
    yield series("kafka_consumergroup_members", consumergroup=group), len(described.members)
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=DEADLINE_S)
    offsets, lags = Counter[str](), Counter[str]()
    for place in asked[group].result().topic_partitions:
        topic, number = place.topic, place.partition
        labels = {"consumergroup": group, "topic": topic, "partition": str(number)}
        lag = newest[topic, number] - place.offset
        yield series("kafka_consumergroup_current_offset", **labels), place.offset
        yield series("kafka_consumergroup_lag", **labels), lag
        offsets[topic] += place.offset
        lags[topic] += lag
    for topic in offsets:
        yield series("kafka_consumergroup_current_offset_sum", consumergroup=group, topic=topic), offsets[topic]
        yield series("kafka_consumergroup_lag_sum", consumergroup=group, topic=topic), lags[topic]
