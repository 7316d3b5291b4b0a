"""Time, as an argument."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def monotonic_ms(self) -> int:
        """Milliseconds since some point in the past; never goes back. For waits and sessions."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 in UTC; may jump. For the timestamps of records."""


class SystemClock:
    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
