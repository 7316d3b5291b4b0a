"""The turns that other tasks have on the event loop while something long runs."""

from __future__ import annotations

import asyncio
from typing import Self


class TurnCounter:
    """Counts the turns of another task inside its `async with` block."""

    async def __aenter__(self) -> Self:
        self.turns = 0
        self._counting = asyncio.create_task(self._count())
        await asyncio.sleep(0)
        self.turns = 0
        return self

    async def __aexit__(self, *_: object) -> None:
        self._counting.cancel()
        await asyncio.gather(self._counting, return_exceptions=True)

    async def _count(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)
