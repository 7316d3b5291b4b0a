"""Records for a `SendBuffer`, and the requests that it makes of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kraft.client.model.settings import ProducerSettings, settings_of
from kraft.client.sans_io.column_records import ColumnRecords
from kraft.client.sans_io.send_batch import Batch, ProducerIdentity
from kraft.client.sans_io.send_buffer import Attempt, SendBuffer
from kraft.log.format.record_batch import decode_batch, read_header
from kraft.model.errors import ErrorCode
from kraft.model.ids import ProducerEpoch, ProducerId, TopicPartition
from kraft.model.produce import ProducePartitionResult

ORDERS = TopicPartition("orders", 0)


def identity(number: int) -> ProducerIdentity:
    return ProducerIdentity(producer_id=ProducerId(number), producer_epoch=ProducerEpoch(0))


@dataclass
class Told:
    """A receipt that remembers."""

    delivered_offsets: list[int] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    def delivered(self, batch: Batch, first: int, count: int, base_offset: int, log_append_time_ms: int) -> None:
        self.delivered_offsets += range(base_offset + first, base_offset + first + count)

    def failed(self, error: Exception) -> None:
        self.errors.append(error)

    def part(self, _start: int, _end: int) -> Told:
        return self


def new_buffer(**given_settings: Any) -> SendBuffer:
    """One batch for each record, unless told otherwise, and a producer id."""
    given_settings = {"batch_size": 1, "linger_ms": 0, **given_settings}
    buffer = SendBuffer(settings_of(ProducerSettings, "b:1", given_settings), lambda: 0.5)
    buffer.give_identity(identity(1))
    return buffer


def buffer_with(**given_settings: Any) -> SendBuffer:
    """The same, whose first record of the partition was stored, so that sequence 1 is next."""
    buffer = new_buffer(**given_settings)
    put(buffer, b"first", now_ms=-100_000)
    (attempt,) = drain(buffer)
    buffer.answered(attempt, result(base_offset=0), 0)
    return buffer


def put(buffer: SendBuffer, *values: bytes, now_ms: int = 0, partition: TopicPartition = ORDERS) -> Told:
    told = Told()
    for value in values:
        records = ColumnRecords([None], [value], [()], [1_000])
        buffer.append(partition, records, sum(records.sizes()), told, now_ms)
    return told


def drain(buffer: SendBuffer, leader: str = "b1", now_ms: int = 0) -> list[Attempt]:
    """Return all requests that the buffer makes at once."""
    attempts: list[Attempt] = []
    while one := buffer.drain(leader, buffer.waiting(), now_ms):
        attempts += one
    return attempts


def result(code: ErrorCode = ErrorCode.NONE, base_offset: int = -1, message: str = "") -> ProducePartitionResult:
    return ProducePartitionResult(
        topic="orders", partition=0, error_code=code, error_message=message, base_offset=base_offset
    )


def sequences(attempts: list[Attempt]) -> list[tuple[int, int]]:
    """Producer id and first sequence of each."""
    headers = [read_header(attempt.batch.encoded or b"") for attempt in attempts]
    return [(header.producer_id, header.base_sequence) for header in headers]


def payloads(attempts: list[Attempt]) -> list[bytes | None]:
    return [record.value for attempt in attempts for record in decode_batch(attempt.batch.encoded or b"")]
