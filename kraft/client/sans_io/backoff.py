"""Pauses before retries."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

Chance = Callable[[], float]
"""Returns a random number from 0 to 1."""


class Backoff(Struct, frozen=True, kw_only=True):
    """Exponential backoff from `first_ms` to `max_ms`, with a fifth of jitter so that clients do not retry together."""

    first_ms: int
    """retry.backoff.ms"""

    max_ms: int
    """retry.backoff.max.ms"""

    chance: Chance

    def delay_ms(self, failures: int) -> int:
        """Return the pause after this many failures in a row (at least 1)."""
        # The limit on doublings bounds the size of the number; `max_ms` is reached long before.
        doubled = self.first_ms << min(failures - 1, 30)
        return int(min(doubled, self.max_ms) * (0.8 + 0.4 * self.chance()))
