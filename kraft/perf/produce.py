"""Sends records at a rate, and measures how long each call takes until its records are acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final

from msgspec import Struct

from kraft.client import Delivery, Producer
from kraft.model.callbacks import Callback
from kraft.model.errors import KraftError
from kraft.perf.latencies import Latencies
from kraft.perf.payloads import Payloads
from kraft.perf.rates import Pace, Rate

WAIT_S_MAX: Final = 0.1
"""Longest pause of a sender that is ahead of its rate."""


class ProduceLoad(Struct, frozen=True, kw_only=True):
    """What to send."""

    topic: str
    records: int
    payloads: Payloads
    records_per_s: float = -1.0
    """Not above 0: as fast as the producer takes them."""

    records_per_call: int
    """Records that are queued together at most; their latency is that of the last of them."""

    warmup_records: int = 0
    transaction_ms: int | None = None
    """Time between commits; None without transactions."""


class Measured:
    """Acknowledged records, all of them and those after the warm-up. Filled by the thread of the client's loop."""

    def __init__(self, warmup_records: int) -> None:
        self._warmup_records = warmup_records
        self._began_s = time.monotonic()
        self._lock = threading.Lock()
        self.all = Latencies()
        self.steady = Latencies()
        self.recent = Latencies()
        """Those since the last report."""
        self.size_bytes = 0
        self.errors: list[Exception] = []
        self.failed = 0
        self._last_s = self._began_s
        self._steady_from: Rate | None = None

    def took(self, began_ns: int, records: int, size_bytes: int, future: Future[Delivery]) -> None:
        """Count the records of a call, which has ended."""
        latency_us = (time.monotonic_ns() - began_ns) // 1_000
        with self._lock:
            error = future.exception()
            if error is not None:
                self.failed += records
                self.errors.append(error if isinstance(error, Exception) else KraftError(repr(error)))
                return
            self._last_s = time.monotonic()
            self.all.add(latency_us, records)
            self.recent.add(latency_us, records)
            self.size_bytes += size_bytes
            if self._steady_from is not None:
                self.steady.add(latency_us, records)
            elif 0 < self._warmup_records <= self.all.count:
                self._steady_from = self._rate(self._last_s)

    def rate(self) -> Rate:
        """Return the rate from the begin up to now."""
        return self._rate(time.monotonic())

    def total(self) -> Rate:
        """Return the rate up to the last acknowledgement."""
        return self._rate(self._last_s)

    def steady_rate(self) -> Rate | None:
        """Return the rate after the warm-up; None if there was none, or nothing after it."""
        return None if self._steady_from is None else self.total().since(self._steady_from)

    def take_recent(self) -> Latencies:
        """Return the latencies since the last call of this."""
        with self._lock:
            taken, self.recent = self.recent, Latencies()
            return taken

    def _rate(self, now_s: float) -> Rate:
        return Rate(records=self.all.count, size_bytes=self.size_bytes, elapsed_s=now_s - self._began_s)


def run(producer: Producer, load: ProduceLoad, show: Callable[[Measured], None]) -> Measured:
    """Send all records and wait for them. `show` is called often. Raises KraftError of a call that cannot be queued."""
    # The first metadata is no latency of a record.
    producer.partitions_for(load.topic)
    if load.transaction_ms is not None:
        producer.init_transactions()
    measured = Measured(load.warmup_records)
    transactions = None if load.transaction_ms is None else _Transactions(producer, load.transaction_ms)
    pace, sent = Pace(load.records_per_s, time.monotonic()), 0
    while sent < load.records and not measured.errors:
        due = pace.due(sent, min(load.records_per_call, load.records - sent), time.monotonic())
        if due == 0:
            # The rate that was asked for, in pauses so short that a signal is not kept waiting.
            time.sleep(min(WAIT_S_MAX, pace.wait_s(sent, time.monotonic())))
        else:
            if transactions is not None:
                transactions.before_send()
            values = load.payloads(sent, due)
            began_ns = time.monotonic_ns()
            future = producer.produce_many(load.topic, values)
            future.add_done_callback(partial(measured.took, began_ns, due, sum(map(len, values))))
            sent += due
        show(measured)
    _until(producer.flush, lambda: show(measured))
    if transactions is not None:
        transactions.end()
    return measured


class _Transactions:
    def __init__(self, producer: Producer, duration_ms: int) -> None:
        self._producer = producer
        self._duration_s = duration_ms / 1_000
        self._began_s: float | None = None

    def before_send(self) -> None:
        """Commit a transaction that is old enough, and see that one is open."""
        if self._began_s is not None and time.monotonic() - self._began_s >= self._duration_s:
            self.end()
        if self._began_s is None:
            self._producer.begin_transaction()
            self._began_s = time.monotonic()

    def end(self) -> None:
        if self._began_s is not None:
            self._producer.commit_transaction()
            self._began_s = None


def _until(flush: Callable[[int], bool], show: Callback) -> None:
    """Wait until all records have ended, which delivery.timeout.ms bounds."""
    while not flush(int(WAIT_S_MAX * 1_000)):
        show()
