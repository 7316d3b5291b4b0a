"""Clients whose every result is an event, in the form of Kafka's verifiable producer and consumer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from msgspec import Struct

from kraft.client import Consumer, PartitionColumns, Producer, RecordMetadata, TopicPartition
from kraft.model.errors import KraftError
from kraft.perf.rates import Pace

Emit = Callable[[str, Mapping[str, Any]], None]
"""Prints an event: takes its name and its fields. Called in several threads."""

POLL_MS: Final = 500
_PAUSE_S_MAX: Final = 0.1


class NumbersToSend(Struct, frozen=True, kw_only=True):
    """Numbers from 0 on, as text; -1 for `messages_max` has no end."""

    topic: str
    messages_max: int
    records_per_s: float
    create_time_ms: int = -1
    """Timestamp of the first record; -1 for the present time."""

    value_prefix: int | None = None
    repeating_keys: int | None = None
    """Keys are 0 up to this number, excluded, again and again; None for no keys."""


class NumberSender:
    """Sends numbers, and emits what became of each."""

    def __init__(self, producer: Producer, numbers: NumbersToSend, emit: Emit) -> None:
        self._producer = producer
        self._numbers = numbers
        self._emit = emit
        self._sent = 0
        self._failure: OSError | None = None
        self.acked = 0
        self._began_s = time.monotonic()

    def run(self) -> None:
        """Send all. Raises KraftError of a record that cannot be queued, OSError once nobody reads the events."""
        numbers = self._numbers
        self._began_s = time.monotonic()
        pace = Pace(numbers.records_per_s, self._began_s)
        self._emit("startup_complete", {})
        while numbers.messages_max < 0 or self._sent < numbers.messages_max:
            if self._failure is not None:
                raise self._failure
            if pace.due(self._sent, 1, time.monotonic()):
                self._send(self._sent)
                self._sent += 1
            else:
                # The rate that was asked for, in pauses so short that a signal is not kept waiting.
                time.sleep(min(_PAUSE_S_MAX, pace.wait_s(self._sent, time.monotonic())))

    def end(self) -> None:
        """Emit the end, after the producer was closed."""
        seconds = time.monotonic() - self._began_s
        self._emit("shutdown_complete", {})
        rates = {
            "target_throughput": self._numbers.records_per_s,
            "avg_throughput": self.acked / seconds if seconds > 0 else 0.0,
        }
        self._emit("tool_data", {"sent": self._sent, "acked": self.acked, **rates})

    def _send(self, number: int) -> None:
        numbers = self._numbers
        key = None if numbers.repeating_keys is None else str(number % numbers.repeating_keys)
        value = str(number) if numbers.value_prefix is None else f"{numbers.value_prefix}.{number}"
        future = self._producer.send(
            numbers.topic,
            value.encode(),
            key=None if key is None else key.encode(),
            timestamp_ms=None if numbers.create_time_ms < 0 else numbers.create_time_ms + number,
        )
        future.add_done_callback(partial(self._ended, key, value))

    def _ended(self, key: str | None, value: str, future: Future[RecordMetadata]) -> None:
        try:
            self._emit_result(key, value, future)
        except OSError as error:
            # A callback's error would only be logged, and the sending go on for ever.
            self._failure = error

    def _emit_result(self, key: str | None, value: str, future: Future[RecordMetadata]) -> None:
        sent = {"key": key, "value": value}
        error = future.exception()
        if error is None:
            stored = future.result()
            self.acked += 1
            where = {"offset": stored.offset, "topic": stored.topic, "partition": stored.partition}
            self._emit("producer_send_success", {**sent, **where})
        else:
            why = {"exception": type(error).__name__, "message": str(error)}
            self._emit("producer_send_error", {**sent, "topic": self._numbers.topic, **why})


class RecordsToRead(Struct, frozen=True, kw_only=True):
    """What a group's member reads; -1 for `messages_max` has no end."""

    topic: str
    messages_max: int
    shows_records: bool
    """Emit each record, and not only how many came."""

    commits: bool
    """Commit after each poll, and emit it; False if the consumer commits by itself."""


def read(consumer: Consumer, wanted: RecordsToRead, emit: Emit) -> None:
    """Read as a member of a group, and emit what is assigned, read and committed. Raises KraftError."""
    left = wanted.messages_max

    def partitions(name: str) -> Callable[[list[TopicPartition]], object]:
        return lambda found: emit(name, {"partitions": [_place(each) for each in found]})

    emit("startup_complete", {})
    revoked = partitions("partitions_revoked")
    consumer.subscribe(wanted.topic, on_assigned=partitions("partitions_assigned"), on_revoked=revoked, on_lost=revoked)
    while left != 0:
        found = consumer.poll_batches(POLL_MS, None if left < 0 else left)
        parts = [each for each in found if each.columns.offsets]
        if not parts:
            continue
        _emit_read(parts, emit, shows_records=wanted.shows_records)
        if left > 0:
            left -= sum(len(each.columns.offsets) for each in parts)
        if wanted.commits:
            _commit(consumer, parts, emit)


def _emit_read(parts: Sequence[PartitionColumns], emit: Emit, *, shows_records: bool) -> None:
    ranges = [
        {
            **_place(part.partition),
            "count": len(part.columns.offsets),
            "minOffset": part.columns.offsets[0],
            "maxOffset": part.columns.offsets[-1],
        }
        for part in parts
    ]
    emit("records_consumed", {"count": sum(len(part.columns.offsets) for part in parts), "partitions": ranges})
    if shows_records:
        for part in parts:
            columns = part.columns
            for offset, key, value in zip(columns.offsets, columns.keys, columns.values, strict=True):
                place = {**_place(part.partition), "offset": offset}
                emit("record_data", {"key": _text(key), "value": _text(value), **place})


def _commit(consumer: Consumer, parts: Sequence[PartitionColumns], emit: Emit) -> None:
    ends = {part.partition: part.next_offset for part in parts}
    offsets = [{**_place(partition), "offset": offset} for partition, offset in ends.items()]
    try:
        consumer.commit(ends)
    except KraftError as error:
        # The next owner of the partitions reads these records again: an event, and no end.
        emit("offsets_committed", {"offsets": offsets, "success": False, "error": str(error)})
    else:
        emit("offsets_committed", {"offsets": offsets, "success": True})


def _place(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")
