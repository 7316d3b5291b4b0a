"""Bounds on time and memory of one input: a decoder that never ends or allocates without limit has failed as well."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

ALLOCATION_MAX_BYTES: Final = 64 << 20
INPUT_SECONDS_MAX: Final = 10
_LIMIT_RENEWED_EVERY: Final = 64


class TooSlow(Exception):
    """An input kept a target busy for longer than it may."""


class MemoryGuard:
    """Allow this process 64 MiB more address space, renewed from time to time.

    Every allocation counts, also those inside of C libraries. One that does not fit raises MemoryError, or ends the
    process if a library cannot handle that.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._hard = resource.getrlimit(resource.RLIMIT_AS)[1]

    def renew(self) -> None:
        if self._calls % _LIMIT_RENEWED_EVERY == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            soft = pages * resource.getpagesize() + ALLOCATION_MAX_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (soft, self._hard))
        self._calls += 1

    def lift(self) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (self._hard, self._hard))


def run_in_time(run: Callable[[bytes], None], data: bytes) -> None:
    """Limit the time of an input. Raises TooSlow. If a call never returns from C, the parent kills this process."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"more than {INPUT_SECONDS_MAX} s for {len(data)} bytes")

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, INPUT_SECONDS_MAX)
    try:
        run(data)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
