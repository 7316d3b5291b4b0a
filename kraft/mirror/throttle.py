"""Bytes a second of one worker."""

from __future__ import annotations

import asyncio


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

    async def used(self, size_bytes: int) -> None:
        """Wait as long as these bytes take at the rate."""
        if (left_s := self.wait_s(size_bytes, asyncio.get_running_loop().time())) > 0:
            await asyncio.sleep(left_s)
