"""A rate over windows of a second, as Kafka measures the use of a quota, and the wait until it is within the limit.

Here for what is not known before it is done, and is soon forgiven: processor time, and connections of an address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOW_MS: Final = 1_000
"""Kafka's default of `quota.window.size.seconds`."""

WINDOWS: Final = 11
"""Kafka's default of `quota.window.num`: ten that are over, and the present one."""

THROTTLE_MS_MAX: Final = 2**31 - 1
"""The most that `throttle_time_ms` can say."""


@dataclass(slots=True)
class _Window:
    start_ms: int
    last_ms: int
    """When something was counted last."""

    sum: float = 0.0


class Rate:
    """Sums of the last windows. Windows begin with what is counted, so they are at least a second long.

    Those that are missing count as empty ones: after a rest, a client may use the quota of ten seconds at once.
    """

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        self._windows: list[_Window] = []

    def count(self, amount: float, now_ms: int) -> None:
        windows = self._windows
        if not windows or now_ms - windows[-1].start_ms >= WINDOW_MS:
            windows.append(_Window(now_ms, now_ms))
            # One more than are measured, since the oldest may reach into the measured time.
            del windows[: -WINDOWS - 1]
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
        self._windows = [each for each in self._windows if now_ms - each.last_ms < WINDOWS * WINDOW_MS]
        elapsed_ms = now_ms - min((each.start_ms for each in self._windows), default=now_ms)
        missing = WINDOWS - 1 - elapsed_ms // WINDOW_MS
        return elapsed_ms + max(0, missing) * WINDOW_MS
