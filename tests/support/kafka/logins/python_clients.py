"""What each client for programs in Python does where it has to log in.

Each creates a topic, writes the values, commits a transaction and aborts another one, and returns what it reads in a
group.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import aiokafka
import confluent_kafka
import kafka
import kafka.admin
from aiokafka.abc import AbstractTokenProvider as AsyncTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka.net.sasl.oauth import AbstractTokenProvider

from kraft.client import Admin, Consumer, Producer
from tests.support.kafka.logged_in_clients import DEADLINE_S, VALUES, assert_produced
from tests.support.kafka.logins.places import Mechanism, Place
from tests.support.kafka.python_clients import ASKS_AGAIN

COMMITTED: Final = b"committed"
ABORTED: Final = b"aborted"
READ: Final = [*VALUES, COMMITTED]

_TRANSACTIONS: Final = ((COMMITTED, True), (ABORTED, False))


def confluent(place: Place, topic: str) -> list[bytes]:
    common: dict[str, Any] = {"bootstrap.servers": place.kafka_servers, **place.of_librdkafka}
    admin = AdminClient(common)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(DEADLINE_S)
    assert_produced(confluent_kafka.Producer(common), topic)
    producer = confluent_kafka.Producer({**common, "transactional.id": topic})
    producer.init_transactions(DEADLINE_S)
    for value, commits in _TRANSACTIONS:
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(DEADLINE_S) == 0
        (producer.commit_transaction if commits else producer.abort_transaction)(DEADLINE_S)
    consumer = confluent_kafka.Consumer({**common, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[bytes] = []
    until_s = time.monotonic() + DEADLINE_S
    while len(read) < len(READ) and time.monotonic() < until_s:
        read += [message.value() or b"" for message in consumer.consume(1, 1.0)]
    consumer.commit(asynchronous=False)
    consumer.close()
    return read


def kafka_python(place: Place, topic: str) -> list[bytes]:
    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return place.token()

    common: dict[str, Any] = {"bootstrap_servers": place.kafka_servers.split(","), **place.of_python, **ASKS_AGAIN}
    if place.mechanism is Mechanism.OAUTHBEARER:
        common["sasl_oauth_token_provider"] = Provider()
    admin = kafka.admin.KafkaAdminClient(**common)
    admin.create_topics([kafka.admin.NewTopic(topic, 1, 1)])
    admin.close()
    producer = kafka.KafkaProducer(**common, acks="all")
    for value in VALUES:
        producer.send(topic, value).get(DEADLINE_S)
    producer.close(timeout=DEADLINE_S)
    producer = kafka.KafkaProducer(**common, transactional_id=topic)
    producer.init_transactions()
    for value, commits in _TRANSACTIONS:
        producer.begin_transaction()
        producer.send(topic, value).get(DEADLINE_S)
        (producer.commit_transaction if commits else producer.abort_transaction)()
    producer.close(timeout=DEADLINE_S)
    consumer = kafka.KafkaConsumer(
        topic,
        **common,
        group_id=topic,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=DEADLINE_S * 1_000,
    )
    read = [next(consumer).value for _ in READ]
    consumer.commit()
    consumer.close()
    return read


def aiokafkas(place: Place, topic: str) -> list[bytes]:
    return asyncio.run(_aiokafkas(place, topic))


async def _aiokafkas(place: Place, topic: str) -> list[bytes]:
    class Provider(AsyncTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return place.token()

    common: dict[str, Any] = {"bootstrap_servers": place.kafka_servers, **place.of_python}
    if place.mechanism is Mechanism.OAUTHBEARER:
        common["sasl_oauth_token_provider"] = Provider()
    admin = AIOKafkaAdminClient(**common)
    await admin.start()
    await admin.create_topics([AioNewTopic(topic, 1, 1)])
    await admin.close()
    producer = aiokafka.AIOKafkaProducer(**common)
    await producer.start()
    for value in VALUES:
        await producer.send_and_wait(topic, value)
    await producer.stop()
    producer = aiokafka.AIOKafkaProducer(**common, transactional_id=topic)
    await producer.start()
    for value, commits in _TRANSACTIONS:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, value)
        await (producer.commit_transaction if commits else producer.abort_transaction)()
    await producer.stop()
    consumer = aiokafka.AIOKafkaConsumer(
        topic, **common, group_id=topic, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    await consumer.start()
    try:
        async with asyncio.timeout(DEADLINE_S):
            read = [(await consumer.getone()).value or b"" for _ in READ]
        await consumer.commit()
    finally:
        await consumer.stop()
    return read


def own_client(place: Place, topic: str) -> list[bytes]:
    common: dict[str, Any] = {"bootstrap_servers": place.grpc_servers, **place.of_java}
    with Admin(**common) as admin:
        admin.create_topic(topic, 1, 1)
    with Producer(**common) as producer:
        for value in VALUES:
            producer.send(topic, value).result(DEADLINE_S)
    with Producer(**common, transactional_id=topic) as producer:
        for value, commits in _TRANSACTIONS:
            producer.begin_transaction()
            producer.send(topic, value)
            producer.flush()
            (producer.commit_transaction if commits else producer.abort_transaction)()
    group: dict[str, Any] = {"group_id": topic, "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    read: list[bytes] = []
    with Consumer(**common, **group) as consumer:
        consumer.subscribe(topic)
        until_s = time.monotonic() + DEADLINE_S
        while len(read) < len(READ) and time.monotonic() < until_s:
            read += [record.value or b"" for record in consumer.poll(500)]
        consumer.commit()
    return read
