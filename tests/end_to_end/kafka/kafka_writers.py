"""Writing records to a partition by each client, in the given order, until all are stored."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

import aiokafka
import confluent_kafka
import kafka

from kraft.client import Producer
from tests.end_to_end.kafka.kafka_records import Headers, Place, Record
from tests.support.kafka.kafka_programs import console_producer, kafkajs, kcat

DEADLINE_S: Final = 30
REQUEST_BYTES_MAX: Final = 2_000_000
"""Clients bound what they send well below what the broker takes, some of them before compression."""


def write_by_confluent(place: Place, codec: str, records: Sequence[Record]) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": place.kafka_servers,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 20,
            "message.max.bytes": REQUEST_BYTES_MAX,
        }
    )
    outcomes: list[object] = []
    for record in records:
        producer.produce(
            place.topic,
            record.value,
            record.key,
            partition=place.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
            on_delivery=lambda error, _: outcomes.append(error),
        )
    assert producer.flush(DEADLINE_S) == 0
    assert outcomes == [None] * len(records)


def write_by_kafka_python(place: Place, codec: str, records: Sequence[Record]) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=place.kafka_servers.split(","),
        compression_type=_none_or(codec),
        linger_ms=20,
        max_request_size=REQUEST_BYTES_MAX,
    )
    pending = [
        producer.send(
            place.topic,
            record.value,
            record.key,
            headers=list(record.headers),
            partition=place.partition,
            timestamp_ms=record.timestamp_ms,
        )
        for record in records
    ]
    offsets = [future.get(DEADLINE_S).offset for future in pending]
    assert offsets == list(range(offsets[0], offsets[0] + len(records)))
    producer.close(timeout=DEADLINE_S)


def write_by_aiokafka(place: Place, codec: str, records: Sequence[Record]) -> None:
    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=place.kafka_servers,
            compression_type=_none_or(codec),
            enable_idempotence=True,
            max_request_size=REQUEST_BYTES_MAX,
        )
        async with asyncio.timeout(DEADLINE_S), producer:
            pending = [
                await producer.send(
                    place.topic,
                    record.value,
                    record.key,
                    place.partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=list(record.headers),
                )
                for record in records
            ]
            stored = await asyncio.gather(*pending)
            assert [each.offset for each in stored] == list(range(stored[0].offset, stored[0].offset + len(records)))

    asyncio.run(write())


def write_by_kraft(place: Place, codec: str, records: Sequence[Record]) -> None:
    with Producer(place.grpc_servers, compression_type=codec, max_request_size=REQUEST_BYTES_MAX) as producer:
        pending = [
            producer.send(
                place.topic,
                record.value,
                key=record.key,
                headers=record.headers,
                partition=place.partition,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        offsets = [future.result(DEADLINE_S).offset for future in pending]
    assert offsets == list(range(offsets[0], offsets[0] + len(records)))


def write_by_kcat(place: Place, codec: str, records: Sequence[Record]) -> None:
    """One run for records in a row that share their headers: it takes headers, and what null is, for a whole run."""

    def run_of(record: Record) -> tuple[Headers, bool]:
        return record.headers, record.key is None or record.value is None

    for (headers, has_null), run in groupby(records, run_of):
        arguments = [word for name, value in headers for word in ("-H", _kcat_header(name, value))]
        kcat(
            place.kafka_servers,
            *("-P", "-t", place.topic, "-p", str(place.partition), "-z", codec, "-K", "\\x01", "-D", "\\x02"),
            *("-X", f"message.max.bytes={REQUEST_BYTES_MAX}"),
            *(["-Z"] if has_null else []),
            *arguments,
            given=b"".join(b"%b\x01%b\x02" % (record.key or b"", record.value or b"") for record in run),
        )


def write_by_java(place: Place, codec: str, records: Sequence[Record]) -> None:
    """Write with Java's console producer: a line is a record, certain words are null. It chooses the partition."""
    settings = {"compression.type": codec, "max.request.size": str(REQUEST_BYTES_MAX), "linger.ms": "20"}
    forms = {"parse.key": "true", "parse.headers": "true", "null.marker": "<null>", "ignore.error": "false"}
    console_producer(
        place.kafka_servers,
        place.topic,
        b"".join(_console_line(record) for record in records),
        *(word for name, value in settings.items() for word in ("--command-property", f"{name}={value}")),
        *(word for name, value in forms.items() for word in ("--reader-property", f"{name}={value}")),
    )


_KAFKAJS_WRITE: Final = """
const producer = new Kafka({ brokers: facts.servers, logLevel: logLevel.NOTHING }).producer(
    { idempotent: true, maxInFlightRequests: 1 });
await producer.connect();
const bytes = text => text === null ? null : Buffer.from(text, 'base64');
for (const { key, value, headers, timestamp } of facts.records) {
    const named = {};
    for (const [name, text] of headers) (named[name] = named[name] || []).push(bytes(text));
    const message = { key: bytes(key), value: bytes(value), headers: named, timestamp, partition: facts.partition };
    await producer.send({ topic: facts.topic, compression: CompressionTypes[facts.codec], messages: [message] });
}
await producer.disconnect();
"""


def write_by_kafkajs(place: Place, codec: str, records: Sequence[Record]) -> None:
    """One batch for each record: what it is given in one call becomes one batch, and may be larger than is taken."""
    kafkajs(
        _KAFKAJS_WRITE,
        servers=place.kafka_servers.split(","),
        topic=place.topic,
        partition=place.partition,
        codec={"none": "None", "gzip": "GZIP", "snappy": "Snappy"}[codec],
        records=[
            {
                "key": _base64(record.key),
                "value": _base64(record.value),
                "headers": [(name, _base64(value)) for name, value in record.headers],
                "timestamp": str(record.timestamp_ms),
            }
            for record in records
        ],
    )


def _none_or(codec: str) -> Any:
    return None if codec == "none" else codec


def _kcat_header(name: str, value: bytes | None) -> bytes:
    return os.fsencode(name) if value is None else os.fsencode(name) + b"=" + value


def _console_line(record: Record) -> bytes:
    headers = b",".join(name.encode() + b":" + _or_null(value) for name, value in record.headers) or b"<null>"
    return b"\t".join((headers, _or_null(record.key), _or_null(record.value))) + b"\n"


def _or_null(text: bytes | None) -> bytes:
    return b"<null>" if text is None else text


def _base64(text: bytes | None) -> str | None:
    return None if text is None else base64.b64encode(text).decode()
