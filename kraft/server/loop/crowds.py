"""Crowds of ready connections, some of which have their turn in each turn of the loop.

A turn of asyncio's loop handles everything that is ready. When thousands of clients connect or send at the same time,
as after an outage, that takes as long as all of their requests together.
"""

from __future__ import annotations

import asyncio
import math
import select
import selectors
from typing import Final

EVENTS_AT_ONCE: Final = 32
"""Connections that are read or written in one turn. The system hands out the others first in the next ones."""

ACCEPTED_AT_ONCE: Final = 16
"""Connections of one listening socket that are accepted in one turn."""


class FewAtOnce(selectors.EpollSelector):
    """A selector that returns no more than `EVENTS_AT_ONCE` of what is ready."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # As in the base class, but for the maximum: of what is ready, epoll first returns what it has not returned yet.
        wait_s = -1.0 if timeout is None else max(math.ceil(timeout * 1e3) * 1e-3, 0.0)
        epoll: select.epoll = self._selector  # type: ignore[attr-defined]  # Of the base class.
        try:
            ready = epoll.poll(wait_s, EVENTS_AT_ONCE)
        except InterruptedError:
            return []
        found = []
        for descriptor, events in ready:
            readable = selectors.EVENT_READ if events & ~select.EPOLLOUT else 0
            writable = selectors.EVENT_WRITE if events & ~select.EPOLLIN else 0
            key = self._key_from_fd(descriptor)  # type: ignore[attr-defined]  # Of the base class.
            if key is not None:
                found.append((key, (readable | writable) & key.events))
        return found


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop for a node."""
    return asyncio.SelectorEventLoop(FewAtOnce())
