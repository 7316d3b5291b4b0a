"""Reads a number of records as a member of a group, and measures how long joining and reading take."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from kraft.client import Consumer, PartitionColumns
from kraft.perf.rates import Rate

POLL_MS: Final = 100


class ReadLoad(Struct, frozen=True, kw_only=True):
    """What to read: a topic, or those whose name matches the pattern."""

    topic: str | None
    pattern: re.Pattern[str] | None
    records: int
    timeout_ms: int
    """The read ends when no record has come for so long."""


class Read:
    """Records that were read, and the time without partitions."""

    def __init__(self) -> None:
        self.began_ms = time.time_ns() // 1_000_000
        self.records = 0
        self.size_bytes = 0
        self.rebalance_s = 0.0
        self._began_s = self._last_s = time.monotonic()
        self._without_since_s: float | None = self._began_s

    def assigned(self, _: object) -> None:
        if self._without_since_s is not None:
            self.rebalance_s += time.monotonic() - self._without_since_s
            self._without_since_s = None

    def revoked(self, _: object) -> None:
        if self._without_since_s is None:
            self._without_since_s = time.monotonic()

    def took(self, parts: list[PartitionColumns]) -> None:
        for part in parts:
            columns = part.columns
            self.records += len(columns.offsets)
            self.size_bytes += sum(len(each) for column in (columns.keys, columns.values) for each in column if each)
        self._last_s = time.monotonic()

    @property
    def idle_ms(self) -> float:
        """Time since the last record, or the begin."""
        return (time.monotonic() - self._last_s) * 1_000

    def rate(self) -> Rate:
        """Return the rate up to the last record, joining included."""
        return self._rate(self._last_s - self._began_s)

    def fetch_rate(self) -> Rate:
        """Return the rate without the time that the group took to give partitions."""
        return self._rate(self._last_s - self._began_s - self.rebalance_s)

    def _rate(self, elapsed_s: float) -> Rate:
        return Rate(records=self.records, size_bytes=self.size_bytes, elapsed_s=elapsed_s)


def run(consumer: Consumer, load: ReadLoad, show: Callable[[Read], None]) -> Read:
    """Read until there are as many records, or none came for the timeout. `show` is called after each poll."""
    read = Read()
    consumer.subscribe(
        load.topic or (), pattern=load.pattern, on_assigned=read.assigned, on_revoked=read.revoked, on_lost=read.revoked
    )
    while read.records < load.records and read.idle_ms < load.timeout_ms:
        parts = consumer.poll_batches(POLL_MS, load.records - read.records)
        if parts:
            read.took(parts)
        show(read)
    return read
