"""Logs when the event loop is blocked, and with it everything that this node does."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final, NamedTuple

import structlog

from kraft.server.loop.periods import period_left_s

log = structlog.get_logger()

SAMPLE_S: Final = 0.125
"""Other periodic tasks have multiples of it as their periods, so they wake when the watch does anyway."""

SAMPLES_KEPT: Final = 80
"""Those of ten seconds."""

HELD_MS_MIN: Final = 100.0
"""Shorter holds are not logged."""

REPORT_INTERVAL_S: Final = 10.0

PAUSE_MS: Final = 3_000
"""A hold without work of this length has ended the sessions of this node, which somebody may have to explain."""


class LoopHold(NamedTuple):
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


class LongestHold:
    """The longest hold since the last report."""

    def __init__(self, held_ms_min: float, report_interval_s: float) -> None:
        self._held_ms_min = held_ms_min
        self._report_interval_s = report_interval_s
        self._longest: LoopHold | None = None
        self._reported_s: float | None = None

    def note(self, hold: LoopHold, now_s: float) -> LoopHold | None:
        """Add a hold. Return the hold to report now; None if it is too short, or a report was made recently."""
        longest = hold if self._longest is None else max(self._longest, hold)
        is_early = self._reported_s is not None and now_s - self._reported_s < self._report_interval_s
        if longest.held_ms < self._held_ms_min or is_early:
            self._longest = longest
            return None
        self._longest, self._reported_s = None, now_s
        return longest


class LoopFacts:
    """How busy the loop was, and how long it was held: plain numbers, which others read."""

    __slots__ = ("_longest_before_ms", "_longest_ms", "_minute", "_samples", "cpu_s", "held_s", "holds")

    def __init__(self) -> None:
        self.holds = 0
        """Holds of at least `HELD_MS_MIN`."""
        self.held_s = 0.0
        """Their sum."""
        self.cpu_s = 0.0
        """Processor time of the loop's thread."""
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES_KEPT)
        self._minute = 0
        self._longest_ms = self._longest_before_ms = 0.0

    def note(self, hold: LoopHold, now_s: float) -> None:
        self.cpu_s += hold.loop_cpu_ms / 1_000
        self._samples.append((now_s, self.cpu_s))
        if hold.held_ms >= HELD_MS_MIN:
            self.holds += 1
            self.held_s += hold.held_ms / 1_000
        if (minute := int(now_s // 60)) != self._minute:
            self._longest_before_ms = self._longest_ms if minute == self._minute + 1 else 0.0
            self._minute, self._longest_ms = minute, 0.0
        self._longest_ms = max(self._longest_ms, hold.held_ms)

    @property
    def longest_s(self) -> float:
        """Longest hold of this minute and of the one before."""
        return max(self._longest_ms, self._longest_before_ms) / 1_000

    @property
    def idle_share(self) -> float | None:
        """Part of the last ten seconds in which the loop's thread did not work, from 0 to 1; None: not known yet."""
        if len(self._samples) < 2:
            return None
        (began_s, cpu_before_s), (ended_s, cpu_s) = self._samples[0], self._samples[-1]
        return min(1.0, max(0.0, 1 - (cpu_s - cpu_before_s) / (ended_s - began_s)))


async def watch_loop(facts: LoopFacts | None = None) -> None:
    """Log holds until cancelled, and note them in `facts`."""
    loop = asyncio.get_running_loop()
    samples = _Samples(loop, facts or LoopFacts())
    try:
        await loop.create_future()
    finally:
        samples.end()


class _Samples:
    """A hold shows as a timer that fires late: it was up to `SAMPLE_S` longer.

    The timer is a bare one: a task that sleeps would take a second turn of the loop each time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, facts: LoopFacts) -> None:
        self._loop = loop
        self._facts = facts
        self._holds = LongestHold(HELD_MS_MIN, REPORT_INTERVAL_S)
        self._begin()

    def end(self) -> None:
        self._timer.cancel()

    def _begin(self) -> None:
        self._loop_cpu_s, self._process_cpu_s = time.thread_time(), time.process_time()
        self._timer = self._loop.call_later(period_left_s(SAMPLE_S), self._take)

    def _take(self) -> None:
        now_s = self._loop.time()
        hold = LoopHold(
            held_ms=(now_s - self._timer.when()) * 1_000,
            loop_cpu_ms=(time.thread_time() - self._loop_cpu_s) * 1_000,
            process_cpu_ms=(time.process_time() - self._process_cpu_s) * 1_000,
        )
        # First, so that the watch goes on whatever becomes of the log line.
        self._begin()
        self._facts.note(hold, now_s)
        reported = self._holds.note(hold, now_s)
        if reported is not None:
            _log(reported)


def _log(hold: LoopHold) -> None:
    facts = {name: round(ms, 1) for name, ms in hold._asdict().items()}
    if hold.was_work:
        log.warning("event loop blocked", cause="work on the loop", **facts)
    elif hold.held_ms >= PAUSE_MS:
        log.warning("node paused", cause="stopped, suspended, starved by other processes, or kept by a disk", **facts)
    else:
        log.info("event loop blocked", cause="other threads or processes, or a pause", **facts)
