"""Reads that may take long, done in a thread in short steps, so that the loop and other requests have their turns.

One step is done at a time, whoever asks: compiled code holds the interpreter for as long as a step takes, and memory is
needed for one piece only. Of the requests that wait, the next step is that of the one that has had the fewest so far:
one that needs few steps has every second one at least, however many others need thousands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from concurrent.futures import Executor
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

_UNDONE: Final = object()


class SlowReads:
    def __init__(self, executor: Executor) -> None:
        """`executor` has one thread."""
        self._executor = executor
        self._is_busy = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    def of_request(self, seconds_max: float) -> RequestReads:
        """The reads of one request, which together may take so long."""
        return RequestReads(self, asyncio.get_running_loop().time() + seconds_max)

    async def step(self, steps: Generator[None, None, Any], taken: int) -> Any:
        """Advances `steps` once, for a request that has taken so many: `_UNDONE`, or what they end with.

        Cancelled, it leaves a step that was begun to its thread; the next one is begun after it.
        """
        await self._turn(taken)
        doing = asyncio.get_running_loop().run_in_executor(self._executor, _advance, steps)
        doing.add_done_callback(self._step_done)
        return await asyncio.shield(doing)

    def give_up(self, steps: Generator[None, None, Any]) -> None:
        """Closes `steps`, behind the step that may be under way."""
        self._executor.submit(steps.close)

    async def _turn(self, taken: int) -> None:
        if not self._is_busy:
            self._is_busy = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (taken, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # It had come, just now.
                self._next_turn()
            raise

    def _step_done(self, doing: asyncio.Future[Any]) -> None:
        if not doing.cancelled():
            # Whoever waited for it may be gone; nobody else is told of its error.
            doing.exception()
        self._next_turn()

    def _next_turn(self) -> None:
        while self._waiting:
            _, _, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._is_busy = False


class RequestReads:
    """Counts what one request takes of the thread, and of the time."""

    def __init__(self, reads: SlowReads, deadline_s: float) -> None:
        self._reads = reads
        self._deadline_s = deadline_s
        self._taken = 0

    async def run(self, steps: Generator[None, None, Result]) -> Result:
        """What the steps end with, or raise. Raises TimeoutError when the request's time is over."""
        is_done = False
        try:
            async with asyncio.timeout_at(self._deadline_s):
                while (outcome := await self._step(steps)) is _UNDONE:
                    pass
            is_done = True
            return outcome  # type: ignore[no-any-return]  # The end of the generator.
        finally:
            if not is_done:
                self._reads.give_up(steps)

    async def wait_for(self, event: Awaitable[Result]) -> Result:
        """What it ends with, or raises. Raises TimeoutError when the request's time is over. Takes no step."""
        async with asyncio.timeout_at(self._deadline_s):
            return await event

    async def _step(self, steps: Generator[None, None, Result]) -> Any:
        self._taken += 1
        return await self._reads.step(steps, self._taken)


def _advance(steps: Generator[None, None, Any]) -> Any:
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    return _UNDONE
