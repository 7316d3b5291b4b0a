"""What each client of Kafka's protocol does after its login: it produces, consumes in a group, and administers."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import aiokafka
import confluent_kafka
import kafka
import kafka.admin
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kraft.client import Admin, Consumer, Producer

DEADLINE_S: Final = 60
VALUES: Final = [b"one", b"two", b"three"]


def assert_produced(producer: confluent_kafka.Producer, topic: str) -> None:
    errors: list[Any] = []
    for value in VALUES:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert errors == [None] * len(VALUES)


def assert_confluents_client_works(login: dict[str, Any], topic: str) -> None:
    assert_produced(confluent_kafka.Producer({**login, "acks": "all"}), topic)
    consumer = confluent_kafka.Consumer({**login, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    messages: list[confluent_kafka.Message] = []
    until_s = time.monotonic() + DEADLINE_S
    while len(messages) < len(VALUES) and time.monotonic() < until_s:
        messages += consumer.consume(len(VALUES), 1.0)
    assert [message.value() for message in messages] == VALUES
    consumer.close()
    admin = AdminClient(login)
    # A client whose tokens come from a function asks for the first one here.
    admin.poll(0)
    created = admin.create_topics([NewTopic(f"{topic}-2", 1, 3)])
    created[f"{topic}-2"].result(DEADLINE_S)


def assert_our_clients_work(login: dict[str, Any], topic: str) -> None:
    """The same by our own clients, which speak Kafka's protocol here."""
    settings = {**login, "wire.protocol": "kafka"}
    servers = settings.pop("bootstrap.servers")
    with Producer(servers, **settings) as producer:
        for sent in [producer.send(topic, value, partition=0) for value in VALUES]:
            sent.result(DEADLINE_S)
    found: list[bytes | None] = []
    until_s = time.monotonic() + DEADLINE_S
    with Consumer(servers, **settings, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        while len(found) < len(VALUES) and time.monotonic() < until_s:
            found += [record.value for record in consumer.poll(1_000)]
    assert found == VALUES
    with Admin(servers, **settings) as admin:
        admin.create_topic(f"{topic}-2", 1, 3)


def assert_kafka_python_works(login: dict[str, Any], topic: str) -> None:
    producer = kafka.KafkaProducer(**login, acks="all")
    for value in VALUES:
        producer.send(topic, value).get(DEADLINE_S)
    producer.close(timeout=DEADLINE_S)
    consumer = kafka.KafkaConsumer(
        topic, **login, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=DEADLINE_S * 1_000
    )
    assert [next(consumer).value for _ in VALUES] == VALUES
    consumer.close()
    admin = kafka.admin.KafkaAdminClient(**login)
    assert topic in admin.list_topics()
    admin.close()


async def aiokafka_reads_what_it_wrote(login: dict[str, Any], topic: str) -> list[bytes | None]:
    """Write in a transaction; return the values read in a group."""
    producer = aiokafka.AIOKafkaProducer(**login, transactional_id=topic)
    await producer.start()
    async with producer.transaction():
        for value in VALUES:
            await producer.send_and_wait(topic, value)
    await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(topic, **login, group_id=topic, auto_offset_reset="earliest")
    await consumer.start()
    try:
        async with asyncio.timeout(DEADLINE_S):
            return [(await consumer.getone()).value for _ in VALUES]
    finally:
        await consumer.stop()
