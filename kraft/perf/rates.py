"""How many records are due by a given time, and how many were sent or read in how long."""

from __future__ import annotations

from msgspec import Struct

BYTES_PER_MB = 1024 * 1024
"""Kafka's tools count a MB as these."""


class Rate(Struct, frozen=True, kw_only=True):
    """Records and their bytes in a time."""

    records: int
    size_bytes: int
    elapsed_s: float

    @property
    def records_per_s(self) -> float:
        return self.records / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def mb(self) -> float:
        return self.size_bytes / BYTES_PER_MB

    @property
    def mb_per_s(self) -> float:
        return self.mb / self.elapsed_s if self.elapsed_s > 0 else 0.0

    def since(self, earlier: Rate) -> Rate:
        return Rate(
            records=self.records - earlier.records,
            size_bytes=self.size_bytes - earlier.size_bytes,
            elapsed_s=self.elapsed_s - earlier.elapsed_s,
        )


class Pace:
    """A steady rate, from the time of its begin. A sender that fell behind catches up, as Kafka's tools do."""

    def __init__(self, records_per_s: float, began_s: float) -> None:
        """A rate of 0 or less has no limit."""
        self._records_per_s = records_per_s
        self._began_s = began_s

    def due(self, sent: int, wanted: int, now_s: float) -> int:
        """Return how many of the `wanted` records may be sent now, after `sent`."""
        if self._records_per_s <= 0:
            return wanted
        return max(0, min(wanted, int((now_s - self._began_s) * self._records_per_s) + 1 - sent))

    def wait_s(self, sent: int, now_s: float) -> float:
        """Return how long it is until one more record than `sent` is due."""
        if self._records_per_s <= 0:
            return 0.0
        return max(0.0, self._began_s + sent / self._records_per_s - now_s)
