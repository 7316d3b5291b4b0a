"""Keeps background threads from taking the disk away from those who wait for it, and ends them when the node stops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

_NANOSECONDS: Final = 1_000_000_000


class Stopped(Exception):
    """The work is not wanted any more."""


class Throttle:
    """Shared by any number of threads: what they pass together stays below the rate."""

    def __init__(
        self,
        bytes_per_second_max: int,
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """`wait` sleeps for so many seconds, and returns True at once when the throttle is stopped."""
        self._bytes_per_second_max = bytes_per_second_max
        self._now_ns = now_ns
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._lock = threading.Lock()
        self._paid_until_ns = 0

    def set_rate(self, bytes_per_second_max: int) -> None:
        """For what is passed from now on."""
        with self._lock:
            self._bytes_per_second_max = bytes_per_second_max

    def stop(self) -> None:
        """Whoever passes bytes from now on, or waits to, is told Stopped."""
        self._stopped.set()

    def pass_bytes(self, size: int) -> None:
        """Waits until what was passed before is paid for. Raises Stopped.

        A single piece is never split, so after a pause it may pass at once, whatever its size.
        """
        with self._lock:
            begin_ns = max(self._now_ns(), self._paid_until_ns)
            self._paid_until_ns = begin_ns + size * _NANOSECONDS // self._bytes_per_second_max
        wait_s = (begin_ns - self._now_ns()) / _NANOSECONDS
        if self._stopped.is_set() or (wait_s > 0 and self._wait(wait_s)):
            raise Stopped
