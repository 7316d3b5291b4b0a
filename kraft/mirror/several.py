"""Partitions that are worked on at the same time: results come in the order of the work, and memory is bounded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")


async def in_order(work: Iterable[Coroutine[Any, Any, Result]], at_once: int) -> AsyncGenerator[Result, None]:
    """Yield the results in the order of the work, which begins only when fewer than `at_once` are ahead of it.

    Raises what the first one in this order raises, and cancels those that have begun. `work` is iterated as it begins.
    """
    begun: deque[asyncio.Task[Result]] = deque()
    try:
        for each in work:
            begun.append(asyncio.ensure_future(each))
            if len(begun) == at_once:
                yield await begun.popleft()
        while begun:
            yield await begun.popleft()
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)


class Room:
    """What is read at once, in records. A partition that has more than fit is read alone."""

    def __init__(self, records_max: int) -> None:
        self._records_max = records_max
        self._left = records_max
        self._in_turn = asyncio.Lock()
        """Held by the one that waits: a large partition is not overtaken again and again by small ones."""
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def taken(self, records: int) -> AsyncIterator[None]:
        """Wait for room, and keep it for as long as the block runs."""
        taken = min(records, self._records_max)
        async with self._in_turn:
            while self._left < taken:
                self._freed.clear()
                await self._freed.wait()
            self._left -= taken
        try:
            yield
        finally:
            self._left += taken
            self._freed.set()
