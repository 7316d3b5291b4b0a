"""Committed entries on their way to the listener, in order: some in each turn of the event loop.

After a start there are as many as the log has behind the snapshot. The listener is told of a leadership by an entry of
its own, so it never leads before it has everything that came before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

APPLIED_S_MAX: Final = 0.005
"""Time after which other tasks have their turn."""

APPLIED_AT_ONCE: Final = 500
"""Entries after which they have it however fast these were."""


DurableIndex = Callable[[], int]
"""Returns the index up to which entries are on this voter's disk."""


class ApplyQueue:
    def __init__(self, apply: Callable[[int, int, bytes], None]) -> None:
        """`apply` takes index, term and content of an entry, and does not raise."""
        self._apply = apply
        self._entries: deque[tuple[int, int, bytes]] = deque()
        self._is_scheduled = False

    def add(self, index: int, term: int, data: bytes) -> None:
        """Add a committed entry, which may not be on this voter's disk yet.

        A single voter's engine counts its own copy as a majority as soon as it is added. It must not raise, or the
        engine would pass on the entry again and again.
        """
        self._entries.append((index, term, data))

    def clear(self) -> None:
        """Apply none of the entries any more."""
        self._entries.clear()

    def apply_up_to(self, durable_index: DurableIndex) -> None:
        """Apply the entries up to this index, those that do not fit into this turn in the next ones."""
        if not self._is_scheduled:
            self._apply_some(durable_index)

    def _apply_some(self, durable_index: DurableIndex) -> None:
        self._is_scheduled = False
        loop, entries = asyncio.get_running_loop(), self._entries
        until_s = loop.time() + APPLIED_S_MAX
        for _ in range(APPLIED_AT_ONCE):
            if not entries or entries[0][0] > durable_index():
                return
            self._apply(*entries.popleft())
            if loop.time() >= until_s:
                break
        self._is_scheduled = True
        loop.call_soon(self._apply_some, durable_index)
