"""Latencies of any number of records in constant memory, with percentiles and a histogram."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

PERCENTS: Final = (50.0, 95.0, 99.0, 99.9)
"""Percentiles in a report, those of Kafka's tools."""

_PRECISION_BITS: Final = 6
"""A range has 64 steps for each power of two: its ends differ by less than 1.6 %."""


class Bar(Struct, frozen=True, kw_only=True):
    """Part of a histogram: how many latencies are at most `below_ms` and above the bound of the bar before it."""

    below_ms: float
    count: int


class Latencies:
    """Latencies in microseconds. The count, the sum, and both ends are exact, percentiles up to 1.6 % too high."""

    def __init__(self) -> None:
        self.count = 0
        self.sum_us = 0
        self.max_us = 0
        self._counts: Counter[int] = Counter()

    def add(self, latency_us: int, count: int = 1) -> None:
        """Count a latency of `count` records."""
        self.count += count
        self.sum_us += latency_us * count
        self.max_us = max(self.max_us, latency_us)
        shift = max(0, latency_us.bit_length() - _PRECISION_BITS - 1)
        self._counts[(shift << _PRECISION_BITS + 1) + (latency_us >> shift)] += count

    @property
    def mean_ms(self) -> float:
        """The mean; 0 without latencies."""
        return self.sum_us / self.count / 1_000 if self.count else 0.0

    @property
    def max_ms(self) -> float:
        return self.max_us / 1_000

    def percentile_ms(self, percent: float) -> float:
        """Return the latency that `percent` of all do not exceed; 0 without latencies."""
        wanted, seen = self.count * percent / 100, 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return min(_highest_us(bucket), self.max_us) / 1_000
        return 0.0

    def percentiles_ms(self) -> dict[float, float]:
        return {percent: self.percentile_ms(percent) for percent in PERCENTS}

    def histogram(self) -> Iterator[Bar]:
        """Yield bars whose bounds double, from that of the shortest latency to that of the longest."""
        counts = Counter[int]()
        for bucket, count in self._counts.items():
            counts[_highest_us(bucket).bit_length()] += count
        if counts:
            for bits in range(min(counts), max(counts) + 1):
                yield Bar(below_ms=(1 << bits) / 1_000, count=counts[bits])


def _highest_us(bucket: int) -> int:
    shift, step = divmod(bucket, 1 << _PRECISION_BITS + 1)
    return ((step + 1) << shift) - 1
