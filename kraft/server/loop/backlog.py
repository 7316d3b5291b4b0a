"""Work of many owners that need not be done in one turn of the loop: some milliseconds of it are done each turn.

A turn of the loop runs everything that is ready. Thousands of timers that are due together, or replies that are
released together, would all be ready in one turn; here they wait for the next ones.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final

from kraft.model.callbacks import NowS

SLICE_S: Final = 0.005
"""Time for the works of one turn, which do at least one piece. A piece that has begun is finished."""

Work = Callable[[], bool]
"""Does the next piece of a long work, which takes some milliseconds at most. Returns True if there is another one."""


class Backlog:
    """Does the pieces of its works in rotation."""

    def __init__(self, slice_s: float = SLICE_S, seconds: NowS = perf_counter) -> None:
        self._slice_s = slice_s
        self._seconds = seconds
        self._works: deque[Work] = deque()
        self._is_due = False
        self._spent_s = 0.0

    def add(self, work: Work) -> None:
        """Do the work from the next turn on."""
        self._works.append(work)
        self._go_on()

    def spend(self, seconds: float) -> None:
        """Count time that a piece costs elsewhere: what it makes ready takes time in the next turn."""
        self._spent_s += seconds

    async def turn(self) -> None:
        """Wait for a turn of the loop that no other work of the backlog has; it may be the current one."""
        if not self._is_due:
            # Others wait for the next ones.
            self.add(lambda: False)
            return
        its_turn = asyncio.get_running_loop().create_future()

        def begin() -> bool:
            if not its_turn.done():
                its_turn.set_result(None)
                # What waited goes on in the next turn.
                self.spend(self._slice_s)
            return False

        self.add(begin)
        await its_turn

    def _go_on(self) -> None:
        if self._works and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_due = False
        self._spent_s = 0.0
        began_s = self._seconds()
        try:
            while self._works:
                work = self._works.popleft()
                if work():
                    self._works.append(work)
                if self._seconds() - began_s + self._spent_s >= self._slice_s:
                    break
        finally:
            self._go_on()
