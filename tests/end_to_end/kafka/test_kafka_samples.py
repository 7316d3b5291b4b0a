"""Python samples of Kafka's guides, unchanged: producers and consumers.

Consumers are given their partitions; those that subscribe as a group are in `groups/test_group_samples.py`.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time

import aiokafka
import aiokafka.errors
import kafka
import kafka.errors
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from tests.end_to_end.kafka.kafka_consumers import DEADLINE_S, fill, kafka_python_consumer, polled

# --- confluent-kafka ---------------------------------------------------------------------------------------------


def test_confluents_producer_and_its_poll_loop(servers: str, topic: str) -> None:
    p = Producer({"bootstrap.servers": servers})
    for data in ("one", "two", "three"):
        p.produce(topic, data.encode("utf-8"), partition=0)
    assert p.flush(DEADLINE_S) == 0

    c = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "mygroup",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "default.topic.config": {"auto.offset.reset": "smallest"},
        }
    )
    c.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    received = []
    running = True
    while running:
        msg = polled(c)
        error = msg.error()
        if not error:
            value = msg.value()
            assert isinstance(value, bytes)
            received.append(value.decode("utf-8"))
        else:
            # Up to librdkafka 0.11 this event came unasked.
            assert (error.code(), msg.offset()) == (KafkaError._PARTITION_EOF, 3)
            running = False
    c.close()
    assert received == ["one", "two", "three"]


def test_confluents_delivery_report_tells_where_a_message_is(servers: str, topic: str) -> None:
    answer: list[tuple[object, str | None, int | None, int | None]] = []

    def delivery_report(err: KafkaError | None, msg: Message) -> None:
        answer.append((err, msg.topic(), msg.partition(), msg.offset()))

    p = Producer({"bootstrap.servers": servers})
    for data in (b"first", b"second"):
        p.poll(0)
        p.produce(topic, data, partition=1, callback=delivery_report)
    assert p.flush(DEADLINE_S) == 0
    assert answer == [(None, topic, 1, 0), (None, topic, 1, 1)]


# --- kafka-python ------------------------------------------------------------------------------------------------


# The guides' functions are no serializers of its own classes, of which it complains.
BARE_FUNCTIONS = pytest.mark.filterwarnings("ignore:.*does not implement kafka.serializer:DeprecationWarning")


@BARE_FUNCTIONS
def test_kafka_pythons_producer(servers: str, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=servers.split(","))
    for _ in range(100):
        producer.send(topic, b"some_message_bytes", partition=0)
    future = producer.send(topic, b"another_message", partition=0)
    result = future.get(timeout=60)
    assert (result.topic, result.partition, result.offset) == (topic, 0, 100)

    producer.send(topic, key=b"foo", value=b"bar")
    producer.flush()
    assert producer.partitions_for(topic) == {0, 1}
    assert producer.metrics()["producer-metrics"]["record-error-rate"] == 0
    producer.close()

    producer = kafka.KafkaProducer(
        bootstrap_servers=servers.split(","), value_serializer=lambda value: json.dumps(value).encode("utf-8")
    )
    assert producer.send(topic, {"foo": "bar"}, partition=0).get(timeout=60).offset >= 101
    producer.close()

    producer = kafka.KafkaProducer(bootstrap_servers=servers.split(","), key_serializer=str.encode)
    producer.send(topic, key="ping", value=b"1234").get(timeout=60)
    producer.close()


def test_kafka_pythons_consumer_is_iterated_over(servers: str) -> None:
    """It begins with what comes after it, so there is somebody who goes on sending."""
    topic = "my_favorite_topic"
    is_over = threading.Event()
    producer = kafka.KafkaProducer(bootstrap_servers=servers.split(","))
    producer.send(topic, key=b"key", value=b"before").get(timeout=60)

    def send() -> None:
        while not is_over.wait(0.05):
            producer.send(topic, key=b"key", value=b"after")
            producer.flush()

    with kafka_python_consumer(servers, topic) as consumer:
        sender = threading.Thread(target=send)
        sender.start()
        try:
            message = next(iter(consumer))
        finally:
            is_over.set()
            sender.join()
            producer.close()
    assert (message.topic, message.partition, message.key, message.value) == (topic, 0, b"key", b"after")
    assert message.offset >= 1


@BARE_FUNCTIONS
def test_kafka_pythons_values_are_decoded(servers: str, topic: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers.split(","), value_serializer=lambda value: json.dumps(value).encode("utf-8")
    )
    producer.send(topic, {"foo": "bar"}).get(timeout=60)
    producer.close()
    with kafka_python_consumer(
        servers, topic, auto_offset_reset="earliest", value_deserializer=lambda value: json.loads(value.decode("utf-8"))
    ) as consumer:
        assert next(iter(consumer)).value == {"foo": "bar"}


def test_kafka_pythons_iteration_ends_after_consumer_timeout_ms(servers: str, topic: str) -> None:
    fill(servers, topic)
    with kafka_python_consumer(servers, topic, auto_offset_reset="earliest", consumer_timeout_ms=4_000) as consumer:
        began = time.monotonic()
        assert [message.value for message in consumer] == [b"%d" % number for number in range(10)]
        assert time.monotonic() - began >= 4


@pytest.mark.slow
def test_kafka_python_commits_nothing_without_a_group(servers: str, topic: str) -> None:
    fill(servers, topic)
    for _ in range(2):
        # Where the first one ended is written down nowhere, so the second one begins where it is told, too.
        with kafka_python_consumer(servers, topic, auto_offset_reset="earliest", consumer_timeout_ms=4_000) as consumer:
            assert [message.offset for message in consumer] == list(range(10))
            with pytest.raises(kafka.errors.IllegalStateError, match="group_id"):
                consumer.commit()


# --- aiokafka ----------------------------------------------------------------------------------------------------


def test_aiokafkas_producer_and_consumer(servers: str, topic: str) -> None:
    async def send_one() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers)
        await producer.start()
        try:
            await producer.send_and_wait(topic, b"Super message", partition=0)
        finally:
            await producer.stop()

    async def consume() -> None:
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=servers, auto_offset_reset="earliest")
        await consumer.start()
        try:
            async for msg in consumer:
                assert (msg.topic, msg.partition, msg.offset, msg.key, msg.value) == (
                    topic,
                    0,
                    0,
                    None,
                    b"Super message",
                )
                break
        finally:
            await consumer.stop()

    async def both() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await send_one()
            await consume()

    asyncio.run(both())
