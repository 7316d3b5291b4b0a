"""Reading a partition by each client, without a group: all records of some sections, in the client's order."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import aiokafka
import confluent_kafka
import kafka

from kraft.client import Consumer, ConsumerRecord, TimestampType, TopicPartition
from tests.end_to_end.kafka.kafka_records import Headers, Place, Record, Section, Stored
from tests.support.kafka.kafka_programs import console_consumer, kafkajs, kcat

DEADLINE_S: Final = 30


def read_by_confluent(place: Place, sections: Sequence[Section]) -> list[Stored]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": place.kafka_servers, "group.id": "nobody", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(place.topic, place.partition, 0)])

    def more() -> list[Stored]:
        message = consumer.poll(DEADLINE_S)
        assert message is None or message.error() is None
        return [] if message is None else [_from_confluent(message)]

    try:
        return _until(sections[-1].end, more)
    finally:
        consumer.close()


def read_by_kafka_python(place: Place, sections: Sequence[Section]) -> list[Stored]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=place.kafka_servers.split(","), enable_auto_commit=False)
    partition = kafka.TopicPartition(place.topic, place.partition)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)

    def more() -> list[Stored]:
        found = consumer.poll(timeout_ms=DEADLINE_S * 1_000)
        return [_from_either_kafka(record) for records in found.values() for record in records]

    try:
        return _until(sections[-1].end, more)
    finally:
        consumer.close()


def read_by_aiokafka(place: Place, sections: Sequence[Section]) -> list[Stored]:
    async def read() -> list[Stored]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=place.kafka_servers, enable_auto_commit=False)
        partition = aiokafka.TopicPartition(place.topic, place.partition)
        async with asyncio.timeout(DEADLINE_S), consumer:
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            found: list[Stored] = []
            while not found or found[-1].offset < sections[-1].end - 1:
                found.append(_from_either_kafka(await consumer.getone()))
            return found

    return asyncio.run(read())


def read_by_kraft(place: Place, sections: Sequence[Section]) -> list[Stored]:
    with Consumer(place.grpc_servers) as consumer:
        partition = TopicPartition(place.topic, place.partition)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)

        def more() -> list[Stored]:
            return [_from_kraft(record) for record in consumer.poll(timeout_ms=DEADLINE_S * 1_000)]

        return _until(sections[-1].end, more)


def read_by_kcat(place: Place, sections: Sequence[Section]) -> list[Stored]:
    """Read with kcat; sizes allow any bytes in keys and values; headers are printed as text."""
    printed = kcat(
        place.kafka_servers,
        *("-C", "-t", place.topic, "-p", str(place.partition), "-o", "beginning", "-e", "-q"),
        *("-c", str(sum(len(section.records) for section in sections))),
        *("-f", "%p %o %T %K %S %k%s%h<end>"),
    )
    return list(_from_kcat(printed))


_CONSOLE_FORMS: Final = {
    **{f"print.{what}": "true" for what in ("timestamp", "partition", "offset", "headers", "key")},
    "key.separator": "<next>",
    "headers.separator": "<header>",
    "line.separator": "<end>",
    "null.literal": "<null>",
}


def read_by_java(place: Place, sections: Sequence[Section]) -> list[Stored]:
    """Read with Java's console consumer, whose separators may be any text."""
    count = sum(len(section.records) for section in sections)
    forms = [word for name, value in _CONSOLE_FORMS.items() for word in ("--formatter-property", f"{name}={value}")]
    printed = console_consumer(place.kafka_servers, place.topic, place.partition, count, *forms)
    return [_from_console(line) for line in printed.split(b"<end>")[:-1]]


_KAFKAJS_READ: Final = """
const kafka = new Kafka({ brokers: facts.servers, logLevel: logLevel.NOTHING });
const symbol = Object.getOwnPropertySymbols(kafka).find(each => each.description === 'private:Kafka:createCluster');
const cluster = kafka[symbol]({});
await cluster.connect();
await cluster.addTargetTopic(facts.topic);
const [leader] = Object.keys(cluster.findLeaderForPartitions(facts.topic, [facts.partition]));
const broker = await cluster.findBroker({ nodeId: leader });
const text = bytes => bytes === null ? null : bytes.toString('base64');
// An answer holds one batch at least, whatever its size.
for (const { start, end } of facts.sections) {
    let next = start;
    while (next < end) {
        const asked = { partition: facts.partition, fetchOffset: String(next), maxBytes: 1, currentLeaderEpoch: -1 };
        const topics = [{ topic: facts.topic, partitions: [asked] }];
        const answer = await broker.fetch({ maxWaitTime: 1000, minBytes: 1, maxBytes: 1, topics, isolationLevel: 0 });
        const [{ messages }] = answer.responses[0].partitions;
        // It does not tell how far a batch without records reaches, so the next offset is asked for.
        if (messages.length === 0) next += 1;
        for (const { offset, timestamp, key, value, headers, batchContext } of messages) {
            next = Number(offset) + 1;
            const pairs = Object.entries(headers).flatMap(
                ([name, values]) => [].concat(values).map(each => [name, text(each)]));
            console.log(JSON.stringify({ offset, timestamp, key: text(key), value: text(value), headers: pairs,
                type: batchContext.timestampType }));
        }
    }
}
await cluster.disconnect();
"""


def read_by_kafkajs(place: Place, sections: Sequence[Section]) -> list[Stored]:
    """Read with KafkaJS's internal broker class: its consumers always use a group, and decode with the same code.

    A batch at a time, so that it is given none in a codec that it does not have.
    """
    printed = kafkajs(
        _KAFKAJS_READ,
        servers=place.kafka_servers.split(","),
        topic=place.topic,
        partition=place.partition,
        sections=[{"start": section.start, "end": section.end} for section in sections],
    )
    return [_from_kafkajs(place.partition, json.loads(line)) for line in printed.splitlines()]


# --- from each client's own type ----------------------------------------------------------------------------------


def _until(end: int, more: Callable[[], list[Stored]]) -> list[Stored]:
    found: list[Stored] = []
    while not found or found[-1].offset < end - 1:
        came = more()
        assert came, f"nothing came for {DEADLINE_S} s after {len(found)} records"
        found += came
    return found


def _stored(
    place: tuple[int, int],
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    timestamp_ms: int,
    has_append_time: bool | None,
) -> Stored:
    partition, offset = place
    record = Record(key=key, value=value, headers=headers, timestamp_ms=timestamp_ms)
    return Stored(partition=partition, offset=offset, record=record, has_append_time=has_append_time)


def _from_confluent(message: Any) -> Stored:
    kind, timestamp_ms = message.timestamp()
    place, headers = (message.partition(), message.offset()), tuple(message.headers() or ())
    has_append_time = {
        confluent_kafka.TIMESTAMP_CREATE_TIME: False,
        confluent_kafka.TIMESTAMP_LOG_APPEND_TIME: True,
    }[kind]
    return _stored(place, message.key(), message.value(), headers, timestamp_ms, has_append_time)


def _from_either_kafka(record: Any) -> Stored:
    """Convert a record of kafka-python, whose types aiokafka uses as well."""
    place, has_append_time = (record.partition, record.offset), {0: False, 1: True}[record.timestamp_type]
    return _stored(place, record.key, record.value, tuple(record.headers), record.timestamp, has_append_time)


def _from_kraft(record: ConsumerRecord) -> Stored:
    place, has_append_time = (record.partition, record.offset), record.timestamp_type is TimestampType.LOG_APPEND_TIME
    return _stored(place, record.key, record.value, record.headers, record.timestamp_ms, has_append_time)


def _from_kcat(printed: bytes) -> Iterator[Stored]:
    at = 0
    while at < len(printed):
        # Not split further: a key or a value may begin with a space.
        *fields, _ = printed[at : at + 100].split(b" ", 5)
        partition, offset, timestamp_ms, key_bytes, value_bytes = (int(field) for field in fields)
        key_at = at + sum(len(field) + 1 for field in fields)
        value_at = key_at + max(key_bytes, 0)
        headers_at = value_at + max(value_bytes, 0)
        end = printed.index(b"<end>", headers_at)
        key = None if key_bytes < 0 else printed[key_at:value_at]
        value = None if value_bytes < 0 else printed[value_at:headers_at]
        headers = tuple(_named(header, b"=") for header in printed[headers_at:end].split(b",") if header)
        yield _stored((partition, offset), key, value, headers, timestamp_ms, None)
        at = end + len(b"<end>")


def _from_console(line: bytes) -> Stored:
    timestamp, partition, offset, headers, key, value = line.split(b"<next>")
    named = () if headers == b"NO_HEADERS" else tuple(_named(header, b":") for header in headers.split(b"<header>"))
    kind, timestamp_ms = timestamp.split(b":")
    return _stored(
        (int(partition.removeprefix(b"Partition:")), int(offset.removeprefix(b"Offset:"))),
        _unless_null(key),
        _unless_null(value),
        tuple((name, _unless_null(text)) for name, text in named),
        int(timestamp_ms),
        {b"CreateTime": False, b"LogAppendTime": True}[kind],
    )


def _from_kafkajs(partition: int, said: dict[str, Any]) -> Stored:
    return _stored(
        (partition, int(said["offset"])),
        _bytes(said["key"]),
        _bytes(said["value"]),
        tuple((name, _bytes(text)) for name, text in said["headers"]),
        int(said["timestamp"]),
        {0: False, 1: True}[said["type"]],
    )


def _named(header: bytes, separator: bytes) -> tuple[str, bytes]:
    name, _, value = header.partition(separator)
    return name.decode(), value


def _unless_null(text: bytes) -> bytes | None:
    return None if text == b"<null>" else text


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
