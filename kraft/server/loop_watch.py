"""Notices when something holds the event loop, and so everything that this node does."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

log = structlog.get_logger()

SAMPLE_S: Final = 0.02

HELD_MS_MIN: Final = 100.0
"""Shorter holds are not worth a line."""

REPORT_INTERVAL_S: Final = 10.0


class HeldTimes:
    """The longest hold since the last report."""

    def __init__(self, held_ms_min: float, report_interval_s: float) -> None:
        self._held_ms_min = held_ms_min
        self._report_interval_s = report_interval_s
        self._longest_ms = 0.0
        self._reported_s: float | None = None

    def note(self, held_ms: float, now_s: float) -> float | None:
        """The hold to report now; None when it is too short, or a report was made a short while ago."""
        self._longest_ms = max(self._longest_ms, held_ms)
        is_early = self._reported_s is not None and now_s - self._reported_s < self._report_interval_s
        if self._longest_ms < self._held_ms_min or is_early:
            return None
        longest_ms, self._longest_ms, self._reported_s = self._longest_ms, 0.0, now_s
        return longest_ms


async def watch_loop() -> None:
    """Logs holds until cancelled. A hold is seen as a timer that fires late: it was up to `SAMPLE_S` longer.

    A machine that is too busy, and a process that was paused, look the same.
    """
    loop, held = asyncio.get_running_loop(), HeldTimes(HELD_MS_MIN, REPORT_INTERVAL_S)
    while True:
        due_s = loop.time() + SAMPLE_S
        await asyncio.sleep(SAMPLE_S)
        now_s = loop.time()
        held_ms = held.note((now_s - due_s) * 1_000, now_s)
        if held_ms is not None:
            log.warning("event loop held", held_ms=round(held_ms, 1))
