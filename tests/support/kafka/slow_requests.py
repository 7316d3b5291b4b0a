"""The requests of one client that cost a broker the most: batches that unpack to millions of records, and false times.

Every batch is below `max.message.bytes`, and is accepted by the broker.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Final

import grpc

from kraft.log.format.compression import Codec, compress
from kraft.log.format.record_batch import _assemble, build_batch
from kraft.log.format.record_codec import Record, encode_records
from kraft.rpc.pb import broker_pb2, broker_pb2_grpc
from kraft.wire.schema.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kraft.wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.kafka.kafka_connection import Connection

LIST_OFFSETS: Final = "list-offsets"
FETCH_RECORDS: Final = "fetch-records"
COMPACTED: Final = "compacted"
ATTACKS: Final = (LIST_OFFSETS, FETCH_RECORDS, COMPACTED)

LIES: Final = "lies"
MANY: Final = "many"
KEYED: Final = "keyed"

LYING_BATCHES: Final = 20
RECORDS: Final = 200_000
MOST_RECORDS: Final = 1_200_000
"""About as many records of seven to ten bytes as fit max.message.bytes."""

EARLY_MS: Final = 1_000_000_000_000
CLAIM_MS: Final = 2_000_000_000_000
LIST_OFFSETS_VERSION: Final = 5
LOOK_UPS: Final = 200
"""Look-ups in one request."""

MESSAGE_BYTES_MAX: Final = 64 << 20
CALL_DEADLINE_S: Final = 60.0

_PRODUCE_VERSION: Final = 9


@cache
def lying_batch() -> bytes:
    """Return a batch that claims a time which none of its 200,000 records has."""
    payload = encode_records([Record(0, EARLY_MS, None, None)] * RECORDS, EARLY_MS)
    return _assemble(
        payload=compress(Codec.ZSTD, payload),
        attributes=int(Codec.ZSTD),
        record_count=RECORDS,
        base_timestamp_ms=EARLY_MS,
        max_timestamp_ms=CLAIM_MS,
        producer=(-1, -1, -1),
        base_offset=0,
        leader_epoch=-1,
    )


@cache
def largest_batch() -> bytes:
    """Return a batch of as many records as fit; the last one is the newest."""
    records = [Record(0, EARLY_MS, None, None)] * (MOST_RECORDS - 1)
    return build_batch([*records, Record(0, EARLY_MS + 9, None, None)], Codec.ZSTD)


@cache
def keyed_batch() -> bytes:
    """Return a batch that a compacted topic checks for records without a key."""
    return build_batch([Record(0, EARLY_MS, b"k", None)] * RECORDS, Codec.ZSTD)


def newest_first(count: int = LOOK_UPS) -> list[tuple[str, int]]:
    """Return topics and times of look-ups: half of them find a false time, the others the last of a million records."""
    return [(LIES, CLAIM_MS), (MANY, EARLY_MS + 5)] * (count // 2)


def list_offsets(count: int = LOOK_UPS) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=-1,
        topics=tuple(
            ListOffsetsTopic(name=topic, partitions=(ListOffsetsPartition(partition_index=0, timestamp=timestamp_ms),))
            for topic, timestamp_ms in newest_first(count)
        ),
    )


def grpc_list_offsets(count: int = LOOK_UPS) -> broker_pb2.ListOffsetsRequest:
    request = broker_pb2.ListOffsetsRequest(replica_id=-1)
    for topic, timestamp_ms in newest_first(count):
        request.topics.add(name=topic).partitions.add(partition_index=0, timestamp=timestamp_ms)
    return request


def fetch_records(offset: int, topic: str = MANY) -> broker_pb2.FetchRecordsRequest:
    return broker_pb2.FetchRecordsRequest(
        topic=topic, partition=0, fetch_offset=offset, max_wait_ms=0, max_bytes=MESSAGE_BYTES_MAX
    )


def compacted_append() -> ProduceRequest:
    return ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=(
            TopicProduceData(
                name=KEYED, partition_data=(PartitionProduceData(index=0, records=memoryview(keyed_batch())),)
            ),
        ),
    )


def grpc_compacted_append() -> broker_pb2.ProduceRequest:
    return broker_pb2.ProduceRequest(
        request_id=1,
        acks=1,
        timeout_ms=30_000,
        partitions=[broker_pb2.ProducePartition(topic=KEYED, partition=0, records=keyed_batch())],
    )


def batch_of_zeros(size: int) -> bytes:
    """Return one record of that many zeros, compressed as far as possible."""
    noise = Random(size).randbytes(size // 1_000)
    return build_batch([Record(0, EARLY_MS, None, noise + bytes(size - len(noise)))], Codec.ZSTD)


def append(broker: broker_pb2_grpc.BrokerStub, topic: str, batch: bytes) -> None:
    request = broker_pb2.ProduceRequest(
        request_id=1,
        acks=-1,
        timeout_ms=30_000,
        partitions=[broker_pb2.ProducePartition(topic=topic, partition=0, records=batch)],
    )
    (answer,) = broker.Produce(iter([request]), timeout=CALL_DEADLINE_S)
    assert answer.partitions[0].error_code == 0, answer


def prepare(server: str) -> None:
    """Fill the existing topics."""
    with stub(server) as broker:
        for _ in range(LYING_BATCHES):
            append(broker, LIES, lying_batch())
        append(broker, MANY, largest_batch())
        append(broker, KEYED, keyed_batch())


@contextmanager
def stub(server: str) -> Iterator[broker_pb2_grpc.BrokerStub]:
    options = [("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)]
    with grpc.insecure_channel(server, options) as channel:
        yield broker_pb2_grpc.BrokerStub(channel)


@dataclass(slots=True)
class Attack:
    """One client with some threads, each of which sends a request after the response to its last one."""

    grpc_server: str
    kafka_server: str
    kinds: tuple[str, ...]
    threads: int = 2
    """Threads of each kind, on each listener."""

    look_ups: int = LOOK_UPS
    """Look-ups in one ListOffsets request."""

    answered: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        works = {
            LIST_OFFSETS: (self._kafka_list_offsets, self._grpc_list_offsets),
            FETCH_RECORDS: (self._fetch_first_records, self._fetch_last_records),
            COMPACTED: (self._kafka_append, self._grpc_append),
        }
        threads = [
            threading.Thread(target=self._repeat, args=(f"{kind} ({work.__name__.strip('_')})", work, until))
            for kind in self.kinds
            for work in works[kind]
            for _ in range(self.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _repeat(self, name: str, work: Callable[[], None], until: float) -> None:
        while time.monotonic() < until:
            try:
                work()
                self.answered[name] += 1
            except (grpc.RpcError, OSError) as error:
                self.failed[f"{name}: {type(error).__name__}"] += 1
                time.sleep(0.1)

    def _kafka_list_offsets(self) -> None:
        with Connection(self.kafka_server) as connection:
            connection.send(list_offsets(self.look_ups), LIST_OFFSETS_VERSION)
            if connection.frame() is None:
                raise ConnectionError("closed")

    def _grpc_list_offsets(self) -> None:
        with stub(self.grpc_server) as broker:
            broker.ListOffsets(grpc_list_offsets(self.look_ups), timeout=CALL_DEADLINE_S)

    def _fetch_first_records(self) -> None:
        with stub(self.grpc_server) as broker:
            broker.FetchRecords(fetch_records(0), timeout=CALL_DEADLINE_S)

    def _fetch_last_records(self) -> None:
        with stub(self.grpc_server) as broker:
            broker.FetchRecords(fetch_records(MOST_RECORDS - 1), timeout=CALL_DEADLINE_S)

    def _kafka_append(self) -> None:
        with Connection(self.kafka_server) as connection:
            connection.send(compacted_append(), _PRODUCE_VERSION)
            if connection.frame() is None:
                raise ConnectionError("closed")

    def _grpc_append(self) -> None:
        with stub(self.grpc_server) as broker:
            list(broker.Produce(iter([grpc_compacted_append()]), timeout=CALL_DEADLINE_S))
