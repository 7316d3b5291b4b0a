"""A rate over windows of time, as Kafka measures the use of a quota, and the wait until it is within the limit.

Here for what is not known before it is done, and is soon forgiven: processor time, and connections of an address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


class Windows(NamedTuple):
    """Kafka's `quota.window.num` and `quota.window.size.seconds`, with its defaults."""

    number: int = 11
    """Those that are over, and the present one."""

    size_ms: int = 1_000

    @property
    def measured_s(self) -> float:
        return self.number * self.size_ms / 1_000

    @property
    def burst_s(self) -> float:
        """What may pass at once, in seconds of the quota: the present window counts nothing yet."""
        return max(1, self.number - 1) * self.size_ms / 1_000


KAFKAS_WINDOWS: Final = Windows()

THROTTLE_MS_MAX: Final = 2**31 - 1
"""The most that `throttle_time_ms` can say."""


@dataclass(slots=True)
class _Window:
    start_ms: int
    last_ms: int
    """When something was counted last."""

    sum: float = 0.0


class Rate:
    """Sums of the last windows. Windows begin with what is counted, so they are at least as long as configured.

    Those that are missing count as empty ones: after a rest, a client may use the quota of all but one at once.
    """

    __slots__ = ("_size", "_windows")

    def __init__(self, size: Windows) -> None:
        self._size = size
        self._windows: list[_Window] = []

    def count(self, amount: float, now_ms: int) -> None:
        windows = self._windows
        if not windows or now_ms - windows[-1].start_ms >= self._size.size_ms:
            windows.append(_Window(now_ms, now_ms))
            # One more than are measured, since the oldest may reach into the measured time.
            del windows[: -self._size.number - 1]
        windows[-1].sum += amount
        windows[-1].last_ms = now_ms

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return the wait after which the rate is within the limit, if nothing more is counted; 0 if it is now."""
        span_ms = self._span_ms(now_ms)
        rate = sum(window.sum for window in self._windows) * 1_000 / span_ms
        if rate <= limit:
            return 0
        # With a wait below a millisecond it would go on at once, and be beyond its limit again.
        return max(1, min(round((rate - limit) / limit * span_ms), THROTTLE_MS_MAX))

    def _span_ms(self, now_ms: int) -> int:
        """Return the time that is measured, after windows have been dropped that it does not reach."""
        number, size_ms = self._size
        self._windows = [each for each in self._windows if now_ms - each.last_ms < number * size_ms]
        elapsed_ms = now_ms - min((each.start_ms for each in self._windows), default=now_ms)
        missing = number - 1 - elapsed_ms // size_ms
        # A single window has no length when it begins: Kafka's is a millisecond, too.
        return max(1, elapsed_ms + max(0, missing) * size_ms)
