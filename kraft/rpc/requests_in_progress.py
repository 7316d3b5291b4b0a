"""Count of a server's requests in progress: a stop waits for them, and not for streams that stay open."""

from __future__ import annotations

import asyncio


class RequestsInProgress:
    """Counts the requests that have no response yet; a stream does not count, but the requests in it do."""

    def __init__(self) -> None:
        self._count = 0
        self._none_left = asyncio.Event()
        self._none_left.set()

    def begun(self) -> None:
        self._count += 1
        self._none_left.clear()

    def ended(self) -> None:
        self._count -= 1
        if not self._count:
            self._none_left.set()

    async def none_left(self) -> None:
        """Wait until every request has its response."""
        await self._none_left.wait()
