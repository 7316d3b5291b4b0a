"""Sends one record after the other, and measures how long each takes until a consumer has it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from kraft.client import Consumer, Producer, TopicPartition
from kraft.log.format.record_codec import Header
from kraft.model.errors import KraftError
from kraft.perf.latencies import Latencies
from kraft.perf.payloads import random_payloads

POLL_MS: Final = 1_000

ARRIVAL_S_MAX: Final = 60.0
"""Longest wait for a record, as in Kafka's tool."""


class LatencyLoad(Struct, frozen=True, kw_only=True):
    """What to send."""

    topic: str
    records: int
    record_bytes: int
    key_bytes: int = 0
    headers: tuple[Header, ...] = ()


def run(producer: Producer, consumer: Consumer, load: LatencyLoad, show: Callable[[Latencies], None]) -> Latencies:
    """Measure each record. Raises KraftError for one that was not stored, did not arrive, or is another."""
    consumer.assign([TopicPartition(load.topic, each) for each in consumer.partitions_for(load.topic)])
    consumer.seek_to_end()
    for partition in consumer.assignment():
        consumer.position(partition)
    producer.partitions_for(load.topic)
    latencies, payloads = Latencies(), random_payloads(load.record_bytes)
    for number in range(load.records):
        (value,) = payloads(number, 1)
        key = os.urandom(load.key_bytes) if load.key_bytes else None
        began_ns = time.monotonic_ns()
        try:
            producer.send(load.topic, value, key=key, headers=load.headers).result(ARRIVAL_S_MAX)
        except TimeoutError:
            raise KraftError(f"a record was not acknowledged within {ARRIVAL_S_MAX:.0f} s") from None
        _receive(consumer, key, value)
        latencies.add((time.monotonic_ns() - began_ns) // 1_000)
        show(latencies)
    return latencies


def _receive(consumer: Consumer, key: bytes | None, value: bytes) -> None:
    """Wait for the record. Raises KraftError."""
    deadline_s = time.monotonic() + ARRIVAL_S_MAX
    while time.monotonic() < deadline_s:
        found = consumer.poll(POLL_MS)
        if len(found) > 1 or (found and (found[0].key, found[0].value) != (key, value)):
            raise KraftError("a record came that was not the one sent: name a topic that nobody else writes to")
        if found:
            return
    raise KraftError(f"a record that was stored did not arrive within {ARRIVAL_S_MAX:.0f} s")


def random_headers(count: int, key_bytes: int, value_bytes: int) -> tuple[Header, ...]:
    """Return headers of the given sizes."""
    return tuple((os.urandom(key_bytes).hex()[:key_bytes], os.urandom(value_bytes)) for _ in range(count))
