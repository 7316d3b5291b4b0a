"""Long work on the loop, with turns for other tasks."""

from __future__ import annotations

import asyncio


class Turns:
    """Counts finished items, and gives other tasks a turn after every `at_once`."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._done = 0

    async def done(self, count: int = 1) -> None:
        self._done += count
        if self._done >= self._at_once:
            self._done = 0
            await asyncio.sleep(0)
