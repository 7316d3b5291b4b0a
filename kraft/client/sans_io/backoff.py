"""How long to wait before trying again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Doubles from `first_ms` to `max_ms`, with a fifth of chance up or down so that clients do not retry in step."""

    first_ms: int
    """retry.backoff.ms"""

    max_ms: int
    """retry.backoff.max.ms"""

    chance: Callable[[], float]
    """A number from 0 to 1."""

    def delay_ms(self, failures: int) -> int:
        """Behind the given number of failures in a row, which is at least 1."""
        # Beyond thirty doublings every delay is the longest one.
        doubled = self.first_ms << min(failures - 1, 30)
        return int(min(doubled, self.max_ms) * (0.8 + 0.4 * self.chance()))
