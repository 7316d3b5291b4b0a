"""Python samples of Kafka's guides, unchanged but for the address: consumers that are members of a group.

A guide's loop runs for ever; here it ends when everything was received.
"""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.end_to_end.kafka.kafka_consumers import polled, value_of
from tests.support.kafka.group_members.observer import Observer
from tests.support.waiting import until

DEADLINE_S = 60
JOINING_MS = 10_000
"""Time of a poll of kafka-python, which may lose its place in the group if one ends while it joins: see its member."""


@pytest.fixture
def topic(observer: Observer, group: str) -> str:
    observer.create_topic(group, 2)
    return group


def send(servers: str, topic: str, *values: str) -> None:
    p = Producer({"bootstrap.servers": servers})
    for data in values:
        p.produce(topic, data.encode("utf-8"))
    assert p.flush(DEADLINE_S) == 0


# --- confluent-kafka -------------------------------------------------------------------------------------------------


def test_confluents_consumer_subscribes_and_commits_automatically(servers: str, topic: str) -> None:
    """`smallest` and `default.topic.config` are of old guides; what one consumer committed, the next one continues."""
    for data in ("one", "two"):
        send(servers, topic, data)
        c = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": topic,
                "default.topic.config": {"auto.offset.reset": "smallest"},
            }
        )
        c.subscribe([topic])
        received: list[bytes | str | None] = []
        while not received:
            msg = polled(c)
            error = msg.error()
            if error is None:
                received.append(value_of(msg))
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
        c.close()
        assert received == [data.encode()]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_confluents_consumer_with_auto_offset_reset_earliest(servers: str, topic: str, protocol: str) -> None:
    send(servers, topic, "one", "two", "three")
    c = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "group.protocol": protocol,
        }
    )
    c.subscribe([topic])
    received: list[str] = []
    while len(received) < 3:
        msg = c.poll(1.0)
        if msg is None:
            continue
        if msg.error():
            raise KafkaException(msg.error())
        value = msg.value()
        assert isinstance(value, bytes)
        received.append(value.decode("utf-8"))
    c.close()
    assert sorted(received) == ["one", "three", "two"]


def test_confluents_synchronous_and_asynchronous_commits(servers: str, topic: str) -> None:
    reported: list[tuple[object, list[TopicPartition]]] = []

    def commit_completed(err: KafkaError | None, partitions: list[TopicPartition]) -> None:
        reported.append((err, partitions))

    send(servers, topic, "one", "two")
    conf = {
        "bootstrap.servers": servers,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "on_commit": commit_completed,
    }
    consumer = Consumer(conf)
    consumer.subscribe([topic])
    count = 0
    while count < 2:
        msg = consumer.poll(timeout=1.0)
        if msg is None:
            continue
        assert msg.error() is None
        count += 1
        if count == 1:
            consumer.commit(message=msg)
        else:
            consumer.commit(message=msg, asynchronous=False)
    while not reported:
        assert consumer.poll(0.1) is None
    assigned = consumer.assignment()
    committed = consumer.committed(assigned, timeout=DEADLINE_S)
    consumer.close()
    assert [error for error, _ in reported] == [None]
    assert sum(max(each.offset, 0) for each in committed) == 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_confluents_subscription_by_a_pattern(servers: str, observer: Observer, group: str, protocol: str) -> None:
    for number in range(2):
        observer.create_topic(f"{group}.{number}", 1)
        send(servers, f"{group}.{number}", str(number))
    c = Consumer(
        {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", "group.protocol": protocol}
    )
    c.subscribe([rf"^{group}\.[0-9]"])
    received: set[object] = set()
    while received != {b"0", b"1"}:
        msg = c.poll(1.0)
        if msg is not None:
            assert msg.error() is None
            received.add(msg.value())
    c.close()


# --- kafka-python ----------------------------------------------------------------------------------------------------


def test_kafka_pythons_consumers_join_a_group_for_dynamic_assignment_and_commits(servers: str, topic: str) -> None:
    """The second one, after the first, continues where that was closed."""
    for values in (("a", "b"), ("c", "d")):
        send(servers, topic, *values)
        consumer = kafka.KafkaConsumer(
            topic, group_id=topic, bootstrap_servers=servers.split(","), auto_offset_reset="earliest"
        )
        received = []
        for message in consumer:
            # message value and key are raw bytes -- decode if necessary!
            received.append(message.value.decode("utf-8"))
            if len(received) == 2:
                break
        consumer.close()
        assert sorted(received) == sorted(values)


def test_kafka_pythons_two_consumers_in_parallel(observer: Observer, servers: str, topic: str) -> None:
    """Each thread reads one partition, and whatever that has, once."""
    received: list[tuple[str, int, str]] = []
    are_over = threading.Event()

    def consume(name: str) -> None:
        consumer = kafka.KafkaConsumer(
            topic,
            client_id=name,
            group_id=topic,
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            consumer_timeout_ms=JOINING_MS,
        )
        while not are_over.is_set():
            for message in consumer:
                if are_over.is_set():
                    break
                received.append((name, message.partition, message.value.decode()))
        consumer.close()

    def are_sharing() -> bool:
        # The first group of a cluster has to wait for its coordinator.
        with suppress(KafkaException):
            shares.update(observer.describe(topic).partitions)
        return sorted(shares.values()) == [(0,), (1,)]

    shares: dict[str, tuple[int, ...]] = {}
    threads = [threading.Thread(target=consume, args=(name,), daemon=True) for name in ("one", "two")]
    for each in threads:
        each.start()
    until(are_sharing, lambda: shares)
    observer.produce(topic, range(2), 25)
    until(lambda: len(received) >= 50, lambda: received)
    are_over.set()
    # Otherwise they wait for records until their timeout.
    observer.produce(topic, range(2), 1)
    for each in threads:
        each.join(DEADLINE_S)
        assert not each.is_alive()
    assert sorted(received) == sorted(
        (name, partition, str(number)) for name, (partition,) in shares.items() for number in range(25)
    )


# The guides' functions are no serializers of its own classes, of which it complains.
@pytest.mark.filterwarnings("ignore:.*does not implement kafka.serializer:DeprecationWarning")
def test_kafka_pythons_commits_by_hand_and_seeks(servers: str, topic: str) -> None:
    send(servers, topic, *(json.dumps({"number": number}) for number in range(10)))
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers,
        group_id=topic,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        value_deserializer=lambda value: json.loads(value.decode("utf-8")),
    )
    consumer.subscribe([topic])
    received: list[int] = []
    while len(received) < 10:
        for messages in consumer.poll(timeout_ms=JOINING_MS).values():
            received += [message.value["number"] for message in messages]
        consumer.commit()
    assert sorted(received) == list(range(10))
    committed = {each: consumer.committed(each) for each in consumer.assignment()}
    assert sum(committed.values()) == 10
    consumer.seek_to_beginning()
    assert {consumer.position(each) for each in consumer.assignment()} == {0}
    consumer.unsubscribe()
    consumer.close()


def test_kafka_pythons_subscription_by_a_pattern(servers: str, observer: Observer, group: str) -> None:
    observer.create_topic(f"awesome-{group}", 1)
    send(servers, f"awesome-{group}", "x")
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest")
    consumer.subscribe(pattern=f"^awesome-{group}.*")
    assert next(iter(consumer)).value == b"x"
    consumer.close()


# --- aiokafka --------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_topics(observer: Observer, group: str) -> tuple[str, str]:
    names = (f"{group}-my_topic", f"{group}-my_other_topic")
    for name in names:
        observer.create_topic(name, 1)
    return names


def test_aiokafkas_consumer_of_two_topics_in_a_group(servers: str, group: str, two_topics: tuple[str, str]) -> None:
    async def consume(count: int) -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(
            *two_topics, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest"
        )
        # Get cluster layout and join group `my-group`
        await consumer.start()
        received: list[bytes] = []
        try:
            # Consume messages
            async for msg in consumer:
                received.append(msg.value)
                if len(received) == count:
                    break
        finally:
            # Will leave consumer group; perform autocommit if enabled.
            await consumer.stop()
        return received

    for values in (("1", "2"), ("3",)):
        for value, topic in zip(values, two_topics, strict=False):
            send(servers, topic, value)
        found = asyncio.run(asyncio.wait_for(consume(len(values)), DEADLINE_S))
        assert sorted(found) == [value.encode() for value in values]


# --- close -----------------------------------------------------------------------------------------------------------


def test_a_member_that_has_read_nothing_closes_at_once(servers: str, topic: str) -> None:
    """And leaves the group, so that the next one does not wait for its session to end."""
    for _ in range(2):
        c = Consumer({"bootstrap.servers": servers, "group.id": topic, "session.timeout.ms": 300_000})
        c.subscribe([topic])
        while not c.assignment():
            assert c.poll(0.1) is None
        c.close()
