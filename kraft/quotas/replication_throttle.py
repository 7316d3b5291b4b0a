"""The throttle of replication: bytes per second of replicas that may wait. Source: KIP-73.

Kafka measures the rate of the last eleven seconds and asks whether it is above the limit. Here it is a bucket of one
second, so that a move does not begin with a burst of ten, and what is next never waits longer than the last bytes take.
"""

from __future__ import annotations

from typing import Final

from kraft.model.config_types import INT64_MAX
from kraft.quotas.rate import THROTTLE_MS_MAX
from kraft.quotas.token_bucket import TokenBucket

UNLIMITED: Final = INT64_MAX
"""The largest int64 is Kafka's default, for no limit."""

BURST_S: Final = 1


class ReplicationThrottle:
    """At most `rate` bytes per second. A batch larger than what is left passes too, and then others wait for it."""

    __slots__ = ("_bucket", "_rate")

    def __init__(self, rate: int, now_ms: int) -> None:
        self._rate = rate
        self._bucket = TokenBucket(rate, BURST_S, now_ms)

    @property
    def rate(self) -> int:
        return self._rate

    @property
    def is_set(self) -> bool:
        """False if there is no limit; then nothing needs to be counted."""
        return self._rate < UNLIMITED

    def set_rate(self, rate: int, now_ms: int) -> None:
        """Set the rate. What was used already counts, at the new rate; what was not is not saved up."""
        if rate == self._rate:
            return
        if self.is_set:
            # The time until now was at the old rate.
            self._bucket.take(0, self._rate, now_ms)
        else:
            self._bucket = TokenBucket(rate, BURST_S, now_ms)
        self._rate = rate

    def wait_ms(self, now_ms: int) -> int:
        """Return the time until something may pass; 0 if it may now."""
        if not self.is_set:
            return 0
        # Nothing passes at a rate of 0 until there is another one.
        return THROTTLE_MS_MAX if self._rate == 0 else self._bucket.throttle_ms(self._rate, now_ms)

    def take(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that pass; give them back if `size_bytes` is negative."""
        if self.is_set:
            self._bucket.take(size_bytes, self._rate, now_ms)
