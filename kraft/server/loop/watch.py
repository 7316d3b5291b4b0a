"""Logs when the event loop is blocked, and with it everything that this node does."""

from __future__ import annotations

import asyncio
import time
from typing import Final, NamedTuple

import structlog

log = structlog.get_logger()

SAMPLE_S: Final = 0.05

HELD_MS_MIN: Final = 100.0
"""Shorter holds are not logged."""

REPORT_INTERVAL_S: Final = 10.0


class Hold(NamedTuple):
    """Time for which the loop was blocked, and the CPU time of its thread and of the whole process meanwhile.

    If the thread used most of it, a task of this node ran too long. If not, the process waited: another thread held
    the interpreter, the machine was busy, or the process was paused.
    """

    held_ms: float
    loop_cpu_ms: float
    process_cpu_ms: float

    @property
    def was_work(self) -> bool:
        """True if the loop itself was working."""
        return self.loop_cpu_ms > self.held_ms / 2


class Holds:
    """The longest hold since the last report."""

    def __init__(self, held_ms_min: float, report_interval_s: float) -> None:
        self._held_ms_min = held_ms_min
        self._report_interval_s = report_interval_s
        self._longest: Hold | None = None
        self._reported_s: float | None = None

    def note(self, hold: Hold, now_s: float) -> Hold | None:
        """Add a hold. Return the hold to report now; None if it is too short, or a report was made recently."""
        longest = hold if self._longest is None else max(self._longest, hold)
        is_early = self._reported_s is not None and now_s - self._reported_s < self._report_interval_s
        if longest.held_ms < self._held_ms_min or is_early:
            self._longest = longest
            return None
        self._longest, self._reported_s = None, now_s
        return longest


async def watch_loop() -> None:
    """Log holds until cancelled. A hold shows as a timer that fires late: it was up to `SAMPLE_S` longer."""
    loop, holds = asyncio.get_running_loop(), Holds(HELD_MS_MIN, REPORT_INTERVAL_S)
    while True:
        due_s = loop.time() + SAMPLE_S
        loop_cpu_s, process_cpu_s = time.thread_time(), time.process_time()
        await asyncio.sleep(SAMPLE_S)
        now_s = loop.time()
        hold = Hold(
            held_ms=(now_s - due_s) * 1_000,
            loop_cpu_ms=(time.thread_time() - loop_cpu_s) * 1_000,
            process_cpu_ms=(time.process_time() - process_cpu_s) * 1_000,
        )
        reported = holds.note(hold, now_s)
        if reported is not None:
            facts = {name: round(ms, 1) for name, ms in reported._asdict().items()}
            if reported.was_work:
                log.warning("event loop blocked", cause="work on the loop", **facts)
            else:
                log.info("event loop blocked", cause="other threads or processes, or a pause", **facts)
