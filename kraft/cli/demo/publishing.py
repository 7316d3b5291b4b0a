"""Publishes flights and records when they were acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Final

from msgspec import Struct

from kraft.cli.demo.failure import DemoFailed
from kraft.cli.demo.flights import Flight
from kraft.client import Delivery, Producer, TopicPartition

FLIGHTS_IN_CHUNK: Final = 500
"""Flights per call of the producer, which groups them into batches by partition."""

_SETTLE_DEADLINE_S: Final = 150.0
"""Above the producer's delivery.timeout.ms, after which each record is either stored or failed."""


class Acknowledgement(Struct, frozen=True, kw_only=True):
    """One chunk of flights, stored by `acknowledged_at_s` of the monotonic clock."""

    acknowledged_at_s: float
    flights: int
    partitions: frozenset[TopicPartition]


class Publisher:
    """Publishes flights. One thread at a time calls `send` and `settle`; another may read the progress."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._chunks_sent = 0
        self._settled = threading.Semaphore(0)
        self._failure: BaseException | None = None
        self.acknowledgements: list[Acknowledgement] = []
        self.acknowledged = 0
        """Number of flights that are stored."""

    def send(self, flights: Iterable[Flight]) -> None:
        """Send all flights; wait while the producer's memory is full of unacknowledged ones."""
        rest = iter(flights)
        while chunk := list(islice(rest, FLIGHTS_IN_CHUNK)):
            self._send_chunk(chunk)

    def settle(self) -> None:
        """Wait until all sent flights are stored. Raises DemoFailed for the first that is not."""
        self._producer.flush()
        deadline_s = time.monotonic() + _SETTLE_DEADLINE_S
        while self._chunks_sent > 0:
            if not self._settled.acquire(timeout=max(0.0, deadline_s - time.monotonic())):
                raise DemoFailed(f"some flights were neither stored nor failed within {_SETTLE_DEADLINE_S:.0f} s")
            self._chunks_sent -= 1
        self._check()

    def _send_chunk(self, chunk: Sequence[Flight]) -> None:
        self._check()
        keys = [flight.key for flight in chunk]
        values = [flight.value for flight in chunk]
        self._producer.produce_many(self._topic, values, keys).add_done_callback(self._chunk_is_done)
        self._chunks_sent += 1

    def _chunk_is_done(self, delivery: Future[Delivery]) -> None:
        """Record a delivery; runs in the client's thread, for one chunk at a time."""
        failure = delivery.exception()
        if failure is None:
            stored = delivery.result()
            self.acknowledged += stored.records
            self.acknowledgements.append(
                Acknowledgement(
                    acknowledged_at_s=time.monotonic(),
                    flights=stored.records,
                    partitions=frozenset(stored.end_offsets),
                )
            )
        elif self._failure is None:
            self._failure = failure
        self._settled.release()

    def _check(self) -> None:
        if self._failure is not None:
            raise DemoFailed(f"some flights were not acknowledged: {self._failure}")
