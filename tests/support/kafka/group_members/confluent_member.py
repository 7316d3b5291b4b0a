"""A member of a group by confluent-kafka, that is librdkafka."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, Message, TopicPartition

from tests.support.kafka.group_members.journal import Journal
from tests.support.kafka.group_members.options import POLL_S, READ_MAX, Options


def run(options: Options, journal: Journal, stopping: threading.Event) -> None:
    consumer = Consumer(settings(options))

    def commit() -> None:
        offsets = [TopicPartition(options.topic, each, end) for each, end in journal.to_commit().items()]
        if not offsets:
            return
        try:
            answer = consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException as error:
            journal.failed("commit", error)
            return
        journal.committed({each.partition: each.offset for each in answer or () if each.error is None})

    def on_revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
        commit()
        journal.revoked(each.partition for each in partitions)

    consumer.subscribe(
        [options.topic],
        on_assign=lambda _, partitions: journal.assigned(each.partition for each in partitions),
        on_revoke=on_revoke,
        on_lost=lambda _, partitions: journal.revoked((each.partition for each in partitions), "lost"),
    )
    while not stopping.is_set():
        for message in _polled(consumer):
            error = message.error()
            if error is not None:
                journal.failed("poll", error)
            else:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                journal.read(partition, offset)
        commit()
    consumer.close()


def settings(options: Options) -> dict[str, Any]:
    """Return those of the consumer."""
    common: dict[str, Any] = {
        "bootstrap.servers": options.servers,
        "client.id": options.name,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
    }
    if not options.as_shipped:
        common |= {"topic.metadata.refresh.interval.ms": 1_000, "reconnect.backoff.max.ms": 500}
    if options.instance:
        common["group.instance.id"] = options.instance
    if options.is_consumer_protocol:
        return {**common, "group.protocol": "consumer"}
    common["partition.assignment.strategy"] = options.protocol
    if options.as_shipped:
        return common
    return {**common, **{name.replace("_", "."): value for name, value in options.session().items()}}


def _polled(consumer: Consumer) -> Iterator[Message]:
    message = consumer.poll(POLL_S)
    for _ in range(READ_MAX):
        if message is None:
            return
        yield message
        message = consumer.poll(0)
    if message is not None:
        yield message
