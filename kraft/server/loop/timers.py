"""Timers of one owner, by key. Those that are due together end one after the other, in turns of bounded length."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from kraft.server.loop.backlog import Backlog
from kraft.server.loop.periods import loop_time_s

_UNUSED_MIN: Final = 1_000
"""Entries of timers that were removed or set again, up to which they stay in the queue."""


class Timers:
    """Calls `ended` with the key and the number of each timer, at its time or a little later."""

    def __init__(self, backlog: Backlog, ended: Callable[[Hashable, int], None]) -> None:
        self._backlog = backlog
        self._ended = ended
        self._set: dict[Hashable, tuple[float, int]] = {}
        """Time and number of each timer that is set."""

        self._queue: list[tuple[float, int, Hashable]] = []
        """A heap of times, in the order in which the timers were queued at the same time."""

        self._queued: dict[Hashable, float] = {}
        """The time of each key in the queue. A timer that is set again, for later, stays queued for its first time."""

        self._order = count()
        self._alarm: asyncio.TimerHandle | None = None
        self._is_ending = False

    def __len__(self) -> int:
        return len(self._set)

    def set(self, key: Hashable, number: int, delay_s: float) -> None:
        """Set a timer. It replaces an earlier one with the key."""
        at_s = loop_time_s() + delay_s
        self._set[key] = at_s, number
        queued_s = self._queued.get(key)
        if queued_s is None or at_s < queued_s:
            self._enqueue(key, at_s)
            self._watch()

    def remove(self, key: Hashable) -> None:
        self._set.pop(key, None)

    def clear(self) -> None:
        self._set.clear()
        self._queue.clear()
        self._queued.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _enqueue(self, key: Hashable, at_s: float) -> None:
        if len(self._queue) > 2 * len(self._set) + _UNUSED_MIN:
            self._queued = {each: due_s for each, (due_s, _) in self._set.items()}
            self._queue = [(due_s, next(self._order), each) for each, due_s in self._queued.items()]
            heapify(self._queue)
            return
        self._queued[key] = at_s
        heappush(self._queue, (at_s, next(self._order), key))

    def _watch(self) -> None:
        """Wake up when the first timer is due."""
        if self._is_ending or not self._queue:
            return
        at_s = self._queue[0][0]
        if self._alarm is not None:
            if self._alarm.when() <= at_s:
                return
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(at_s, self._wake)

    def _wake(self) -> None:
        self._alarm = None
        self._is_ending = True
        self._backlog.add(self._end_next)

    def _end_next(self) -> bool:
        """End the next timer that is due. Returns False if none is."""
        if not self._queue or self._queue[0][0] > loop_time_s():
            self._stop_ending()
            return False
        queued_s, _, key = heappop(self._queue)
        if self._queued.get(key) != queued_s:
            return True  # It was queued again for an earlier time, and has ended then.
        del self._queued[key]
        if key not in self._set:
            return True
        at_s, number = self._set[key]
        if at_s > queued_s:
            self._enqueue(key, at_s)
            return True
        del self._set[key]
        try:
            self._ended(key, number)
        except BaseException:
            # What raised is not called again, so the timers that are left need an alarm of their own.
            self._stop_ending()
            raise
        return True

    def _stop_ending(self) -> None:
        self._is_ending = False
        self._watch()
