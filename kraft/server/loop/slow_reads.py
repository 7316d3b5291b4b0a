"""Long reads, done in a thread in short steps, so that the loop and other requests get their turns.

One step is done at a time: compiled code holds the interpreter during a step, and memory is needed for one piece only.
The next step goes to the waiting request that has had the fewest so far: a request that needs few steps gets at least
every second one, even while others need thousands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from concurrent.futures import Executor
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, TypeVar

from kraft.server.loop.periods import loop_time_s

Result = TypeVar("Result")

_UNDONE: Final = object()


class SlowReads:
    """Runs the steps of long reads in one thread, shared by all requests."""

    def __init__(self, executor: Executor) -> None:
        """`executor` has one thread."""
        self._executor = executor
        self._is_busy = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    def of_request(self, seconds_max: float) -> RequestReads:
        """Return the reads of one request, which together may take `seconds_max`."""
        return RequestReads(self, loop_time_s() + seconds_max)

    async def step(self, steps: Generator[None, None, Any], taken: int) -> Any:
        """Advance `steps` once, for a request that has had `taken` steps. Return `_UNDONE`, or the generator's result.

        When cancelled, a step that has begun still runs to its end; the next one begins after it.
        """
        await self._turn(taken)
        doing = asyncio.get_running_loop().run_in_executor(self._executor, _advance, steps)
        doing.add_done_callback(self._step_done)
        return await asyncio.shield(doing)

    def abandon(self, steps: Generator[None, None, Any]) -> None:
        """Close `steps` after the step that may be running."""
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
                # It had got its turn before the cancellation: pass it on.
                self._next_turn()
            raise

    def _step_done(self, doing: asyncio.Future[Any]) -> None:
        if not doing.cancelled():
            # The waiting request may be gone. Its error is retrieved here, so that asyncio does not log it.
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
    """The reads of one request: counts its steps, and ends them at its deadline."""

    def __init__(self, reads: SlowReads, deadline_s: float) -> None:
        self._reads = reads
        self._deadline_s = deadline_s
        self._taken = 0

    def check_deadline(self) -> None:
        """Raise TimeoutError after the request's deadline: a request may have thousands of reads left to prepare."""
        if asyncio.get_running_loop().time() >= self._deadline_s:
            raise TimeoutError

    async def run(self, steps: Generator[None, None, Result]) -> Result:
        """Run the steps; return their result, or raise as they do. Raises TimeoutError after the request's deadline."""
        is_done = False
        try:
            async with asyncio.timeout_at(self._deadline_s):
                while (outcome := await self._step(steps)) is _UNDONE:
                    pass
            is_done = True
            return outcome  # type: ignore[no-any-return]  # The end of the generator.
        finally:
            if not is_done:
                self._reads.abandon(steps)

    async def wait_for(self, event: Awaitable[Result]) -> Result:
        """Wait for `event` without a step; return its result. Raises TimeoutError after the request's deadline."""
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
