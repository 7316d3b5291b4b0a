"""Publishing flights, and remembering when they were acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kraft.cli.demo.failure import DemoFailed
from kraft.cli.demo.flights import Flight
from kraft.client import Delivery, Producer, TopicPartition

FLIGHTS_IN_CHUNK: Final = 500
"""Handed to the producer at once. It makes batches of its own out of them, one for each partition."""

_SETTLE_DEADLINE_S: Final = 150.0
"""Above the producer's delivery.timeout.ms, after which each record is either stored or given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """One chunk of flights, all of them stored by that time of the monotonic clock."""

    acknowledged_at_s: float
    flights: int
    partitions: frozenset[TopicPartition]


class Publisher:
    """`send` and `settle` are called from one thread at a time; another one may look at how far they are."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._chunks_sent = 0
        self._settled = threading.Semaphore(0)
        self._failure: BaseException | None = None
        self.acknowledgements: list[Acknowledgement] = []
        self.acknowledged = 0
        """Flights that are stored by now."""

    def send(self, flights: Iterable[Flight]) -> None:
        """Hands all of them to the producer, and waits whenever its memory is full of unacknowledged ones."""
        rest = iter(flights)
        while chunk := list(islice(rest, FLIGHTS_IN_CHUNK)):
            self._send_chunk(chunk)

    def settle(self) -> None:
        """Waits until everything that was sent is stored. Raises DemoFailed for the first that is not."""
        self._producer.flush()
        deadline_s = time.monotonic() + _SETTLE_DEADLINE_S
        while self._chunks_sent > 0:
            if not self._settled.acquire(timeout=max(0.0, deadline_s - time.monotonic())):
                raise DemoFailed(f"the producer neither stored nor gave up some flights in {_SETTLE_DEADLINE_S:.0f} s")
            self._chunks_sent -= 1
        self._check()

    def _send_chunk(self, chunk: Sequence[Flight]) -> None:
        self._check()
        keys = [flight.key for flight in chunk]
        values = [flight.value for flight in chunk]
        self._producer.produce_many(self._topic, values, keys).add_done_callback(self._chunk_is_done)
        self._chunks_sent += 1

    def _chunk_is_done(self, delivery: Future[Delivery]) -> None:
        """Runs in the client's thread, for one chunk after the other."""
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
            raise DemoFailed(f"flights that were published are not acknowledged: {self._failure}")
