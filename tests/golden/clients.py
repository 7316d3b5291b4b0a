"""Batches as other clients build and read them."""

from __future__ import annotations

import time
from typing import Any, Final

import aiokafka.record.default_records
import aiokafka.record.memory_records
import confluent_kafka
import kafka.record
import kafka.record.default_records

from kraft.log.format.compression import Codec
from kraft.log.format.record_codec import Record
from tests.golden.fake_broker import TOPIC, fake_broker

NO_PRODUCER: Final = (-1, -1, -1)
BATCH_BYTES_MAX: Final = 16 << 20
WAIT_S: Final = 20.0


def built_by_kafka_python(records: list[Record], codec: Codec, producer: tuple[int, int, int] = NO_PRODUCER) -> bytes:
    return _built_by(kafka.record.default_records.DefaultRecordBatchBuilder, records, codec, producer)


def built_by_aiokafka(records: list[Record], codec: Codec, producer: tuple[int, int, int] = NO_PRODUCER) -> bytes:
    return _built_by(aiokafka.record.default_records.DefaultRecordBatchBuilder, records, codec, producer)


def _built_by(builder_type: Any, records: list[Record], codec: Codec, producer: tuple[int, int, int]) -> bytes:
    producer_id, producer_epoch, base_sequence = producer
    builder = builder_type(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=BATCH_BYTES_MAX,
    )
    for offset, (_, timestamp_ms, key, value, headers) in enumerate(records):
        assert builder.append(offset, timestamp_ms, key, value, list(headers)) is not None
    return bytes(builder.build())


def built_by_librdkafka(records: list[Record], codec: Codec, *, idempotent: bool = False) -> bytes:
    """Return the records of confluent-kafka's produce request."""
    with fake_broker() as broker:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{broker.port}",
                "compression.type": codec.config_name,
                "enable.idempotence": idempotent,
                # All records in one batch: none is sent before the flush.
                "linger.ms": 60_000,
                "batch.size": BATCH_BYTES_MAX,
                "message.max.bytes": BATCH_BYTES_MAX,
            }
        )
        for record in records:
            producer.produce(
                TOPIC,
                partition=0,
                key=record.key,
                value=record.value,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
        unsent = producer.flush(WAIT_S)
        assert unsent == 0, f"librdkafka still held {unsent} records after {WAIT_S:g} s"
    (batch,) = broker.received
    return batch


def read_by_kafka_python(batches: bytes) -> list[Record]:
    return _read_by(kafka.record.MemoryRecords(batches))


def read_by_aiokafka(batches: bytes) -> list[Record]:
    return _read_by(aiokafka.record.memory_records.MemoryRecords(batches))


def _read_by(batches: Any) -> list[Record]:
    records = []
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        records += [
            Record(each.offset, each.timestamp, each.key, each.value, tuple(map(tuple, each.headers))) for each in batch
        ]
    return records


def read_by_librdkafka(batches: bytes, count: int) -> list[Record]:
    """Return the records that confluent-kafka reads from a fetch response of `count` records from offset 0."""
    with fake_broker(served=batches, high_watermark=count) as broker:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{broker.port}",
                "group.id": "golden",
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
            records: list[Record] = []
            deadline = time.monotonic() + WAIT_S
            while len(records) < count and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is not None:
                    assert message.error() is None, message.error()
                    records.append(_record_of(message))
            return records
        finally:
            consumer.close()


def _record_of(message: confluent_kafka.Message) -> Record:
    offset = message.offset()
    assert offset is not None
    # Its types allow more than it returns.
    headers: Any = message.headers() or []
    key: Any = message.key()
    value: Any = message.value()
    return Record(offset, message.timestamp()[1], key, value, tuple(headers))
