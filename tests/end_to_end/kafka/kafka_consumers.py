"""Consumers of Kafka for tests that need no group, as context managers, and a partition for them to move about in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import kafka
from confluent_kafka import Consumer, Message, Producer

from tests.support.kafka.python_clients import ASKS_AGAIN

DEADLINE_S: Final = 30
BEGAN_MS: Final = 1_700_000_000_000


def fill(servers: str, topic: str, count: int = 10) -> None:
    """Partition 0 gets a record a second."""
    p = Producer({"bootstrap.servers": servers})
    for number in range(count):
        p.produce(topic, b"%d" % number, partition=0, timestamp=BEGAN_MS + 1_000 * number)
    assert p.flush(DEADLINE_S) == 0


@contextmanager
def confluent_consumer(servers: str, **settings: object) -> Iterator[Consumer]:
    c = Consumer({"bootstrap.servers": servers, "group.id": "mygroup", "enable.auto.commit": False, **settings})
    try:
        yield c
    finally:
        c.close()


def polled(c: Consumer) -> Message:
    """The next message, or event."""
    msg = c.poll(DEADLINE_S)
    assert msg is not None, "nothing came"
    return msg


def value_of(msg: Message) -> bytes | str | None:
    assert msg.error() is None
    return msg.value()


@contextmanager
def kafka_python_consumer(servers: str, *topics: str, **settings: Any) -> Iterator[kafka.KafkaConsumer]:
    settings.setdefault("consumer_timeout_ms", DEADLINE_S * 1_000)
    consumer = kafka.KafkaConsumer(*topics, bootstrap_servers=servers.split(","), **ASKS_AGAIN | settings)
    try:
        yield consumer
    finally:
        consumer.close()
