"""The clock interface, and the system's clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Source of time."""

    def monotonic_ms(self) -> int:
        """Return milliseconds since some point in the past; never goes back. For waits and sessions."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970 in UTC; may jump. For the timestamps of records."""


class SystemClock:
    """The clock of the operating system."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
