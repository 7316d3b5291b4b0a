"""Long work on the loop, with turns for other tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Final, TypeVar

Item = TypeVar("Item")

CHARACTERS_OF_ITEM: Final = 256
"""Characters of an id that take about as long as an item: a coordinator is found by a hash of all of them."""


class Turns:
    """Counts finished items, and gives other tasks a turn after every `at_once`."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._done = 0

    async def done_with_id(self, text: str, count: int = 0) -> None:
        """Count what an id with this text takes, and `count` items besides."""
        await self.done(1 + len(text) // CHARACTERS_OF_ITEM + count)

    async def done(self, count: int = 1) -> None:
        self._done += count
        if self._done >= self._at_once:
            self._done = 0
            await asyncio.sleep(0)


async def in_turns(items: Iterable[Item], turns: Turns) -> AsyncIterator[Item]:
    """Yield the items, each of which counts as done once the next one is asked for."""
    for item in items:
        yield item
        await turns.done()


async def pieces(items: Iterable[Item], at_once: int) -> AsyncIterator[list[Item]]:
    """Yield the items, `at_once` of them together, and give other tasks a turn between."""
    rest = iter(items)
    while piece := list(islice(rest, at_once)):
        yield piece
        if len(piece) == at_once:
            await asyncio.sleep(0)


async def collected(items: Iterable[Item], at_once: int) -> list[Item]:
    """Return the items, which are made as they are taken, with a turn for other tasks after every `at_once`."""
    return [item async for piece in pieces(items, at_once) for item in piece]
