"""`python -m tests.golden.make_requests`: records the requests of the installed clients again.

Each client produces a record, joins a group, reads for a moment, commits, and leaves.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import aiokafka
import confluent_kafka
import kafka
import typer

from kraft.wire.api_keys import ApiKey
from tests.golden.recording_broker import GROUP, TOPIC, recording_broker

FOLDER: Final = Path(__file__).parent / "requests"
KEY: Final = b"key"
VALUE: Final = b"value"
TIMESTAMP_MS: Final = 1_700_000_000_000
_HEARTBEAT_MS: Final = 300
_CONSUMER: Final[dict[str, Any]] = {
    "client_id": "golden",
    "group_id": GROUP,
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": _HEARTBEAT_MS,
    "enable_auto_commit": False,
}
_READING_S: Final = 2.0
_WAIT_S: Final = 20.0


def main() -> None:
    """Record the requests of the installed clients again, in place."""
    FOLDER.mkdir(exist_ok=True)
    for name, talk in (("librdkafka", _librdkafka), ("kafka-python", _kafka_python), ("aiokafka", _aiokafka)):
        with recording_broker() as broker:
            talk(f"127.0.0.1:{broker.port}")
        for (api_key, version), (first, *_) in sorted(broker.frames.items()):
            _write(name, api_key, version, first)
    with recording_broker() as broker:
        _ask_for_all_topics(f"127.0.0.1:{broker.port}")
    for (api_key, version), frames in broker.frames.items():
        if api_key is ApiKey.METADATA:
            # The first request asks only for brokers.
            _write("librdkafka-all-topics", api_key, version, frames[1])


def _librdkafka(address: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "client.id": "golden", "enable.idempotence": True}
    )
    producer.produce(TOPIC, key=KEY, value=VALUE, timestamp=TIMESTAMP_MS)
    assert producer.flush(_WAIT_S) == 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "client.id": "golden",
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": _HEARTBEAT_MS,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + _READING_S
    while time.monotonic() < deadline:
        consumer.poll(0.1)
    consumer.commit(offsets=[confluent_kafka.TopicPartition(TOPIC, 0, 7, metadata="note")], asynchronous=False)
    consumer.close()


def _kafka_python(address: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=address, client_id="golden", enable_idempotence=True)
    producer.send(TOPIC, key=KEY, value=VALUE, timestamp_ms=TIMESTAMP_MS).get(_WAIT_S)
    producer.close(_WAIT_S)
    consumer = kafka.KafkaConsumer(TOPIC, bootstrap_servers=address, **_CONSUMER)
    deadline = time.monotonic() + _READING_S
    while time.monotonic() < deadline:
        consumer.poll(100)
    consumer.commit({kafka.TopicPartition(TOPIC, 0): kafka.OffsetAndMetadata(7, "note", -1)})
    consumer.close()


def _aiokafka(address: str) -> None:
    asyncio.run(_aiokafka_talk(address))


async def _aiokafka_talk(address: str) -> None:
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=address, client_id="golden", enable_idempotence=True
    ) as producer:
        await producer.send_and_wait(TOPIC, key=KEY, value=VALUE, timestamp_ms=TIMESTAMP_MS)
    async with aiokafka.AIOKafkaConsumer(TOPIC, bootstrap_servers=address, **_CONSUMER) as consumer:
        await consumer.getmany(timeout_ms=round(_READING_S * 1000))
        await consumer.commit({aiokafka.TopicPartition(TOPIC, 0): (7, "note")})


def _ask_for_all_topics(address: str) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "client.id": "golden", "group.id": GROUP})
    consumer.list_topics(timeout=_WAIT_S)
    consumer.close()


def _write(client: str, api_key: ApiKey, version: int, frame: bytes) -> None:
    name = f"{client}-{api_key.name.lower().replace('_', '-')}-v{version}.bin"
    (FOLDER / name).write_bytes(frame)
    print(f"{name}: {len(frame):,} bytes")


if __name__ == "__main__":
    typer.run(main)
