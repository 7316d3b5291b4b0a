"""Tokens that a quota refills, in Kafka's way for changes of topics (KIP-599), and here for bytes as well.

For bytes Kafka measures a rate over eleven windows of a second, which gives a client that has rested the same burst and
the same wait: what it is over, divided by its quota. But a burst is forgotten once its window is eleven seconds old,
and then the client, which never rested, may have the next one: in 30 seconds a client of Kafka that sends all it may
gets 73 to 125 % of its quota. A bucket is not full again before the client has rested.
"""

from __future__ import annotations

from kraft.quotas.rate import THROTTLE_MS_MAX


class TokenBucket:
    """Full at first. What begins while it is not overdrawn may overdraw it, by any number of tokens."""

    __slots__ = ("_at_ms", "_burst_s", "_tokens")

    def __init__(self, limit: float, burst_s: float, now_ms: int) -> None:
        self._tokens = limit * burst_s
        self._burst_s = burst_s
        self._at_ms = now_ms

    def take(self, count: float, limit: float, now_ms: int) -> None:
        """Take so many tokens; give them back if `count` is negative."""
        self._refill(limit, now_ms)
        self._tokens = min(self._tokens - count, limit * self._burst_s)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return the wait until the bucket is not overdrawn."""
        self._refill(limit, now_ms)
        return max(0, min(round(-self._tokens / limit * 1_000), THROTTLE_MS_MAX))

    def _refill(self, limit: float, now_ms: int) -> None:
        self._tokens = min(self._tokens + limit * (now_ms - self._at_ms) / 1_000, limit * self._burst_s)
        self._at_ms = now_ms
