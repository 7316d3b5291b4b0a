"""Bytes a second of one worker."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

_BURSTS_PER_SECOND: Final = 2


class Throttle:
    """Lets all copies of a worker together pass so many bytes a second."""

    def __init__(self, bytes_per_second: int) -> None:
        """0 is no limit."""
        self._rate = bytes_per_second
        self._free_at_s = 0.0

    def wait_s(self, size_bytes: int, now_s: float) -> float:
        """Return how long to wait after these bytes."""
        if not self._rate:
            return 0.0
        self._free_at_s = max(self._free_at_s, now_s) + size_bytes / self._rate
        return self._free_at_s - now_s

    def burst_bytes(self, at_most: int) -> int:
        """Return how many bytes may be sent at once: a part of a second's, or as many as the caller can."""
        return min(at_most, max(1, self._rate // _BURSTS_PER_SECOND)) if self._rate else at_most

    async def used(self, size_bytes: int, stopped: asyncio.Event) -> None:
        """Wait as long as these bytes take at the rate, or until the copy is stopped."""
        wait_s = self.wait_s(size_bytes, asyncio.get_running_loop().time())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await stopped.wait()
