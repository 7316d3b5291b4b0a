"""Limits the rate of background threads, so that requests get the disk, and stops them when the node stops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

_NANOSECONDS: Final = 1_000_000_000


class Stopped(Exception):
    """The throttle was stopped, or the work is not needed any more."""


class Throttle:
    """Rate limit shared by any number of threads."""

    def __init__(
        self,
        bytes_per_second_max: int,
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """`wait` sleeps for that many seconds, and returns True at once when the throttle is stopped."""
        self._bytes_per_second_max = bytes_per_second_max
        self._now_ns = now_ns
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._lock = threading.Lock()
        self._paid_until_ns = 0

    def set_rate(self, bytes_per_second_max: int) -> None:
        """Set the rate for later bytes."""
        with self._lock:
            self._bytes_per_second_max = bytes_per_second_max

    def stop(self) -> None:
        """Stop all threads: `pass_bytes` raises Stopped from now on, also in threads that wait."""
        self._stopped.set()

    def pass_bytes(self, size: int) -> None:
        """Wait as long as the earlier bytes take at the rate. Raises Stopped.

        A piece is never split: after a pause a piece of any size passes at once.
        """
        with self._lock:
            begin_ns = max(self._now_ns(), self._paid_until_ns)
            self._paid_until_ns = begin_ns + size * _NANOSECONDS // self._bytes_per_second_max
        wait_s = (begin_ns - self._now_ns()) / _NANOSECONDS
        if self._stopped.is_set() or (wait_s > 0 and self._wait(wait_s)):
            raise Stopped
