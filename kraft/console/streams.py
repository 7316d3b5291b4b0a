"""Server-sent events: what a page shows while it moves. Bounded, and over when the session is.

Source: the section "Server-sent events" of the HTML standard.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Final

import msgspec
from msgspec import Struct

from kraft.console.asking import LoginOver

STREAMS_MAX: Final = 50
STREAMS_OF_A_USER_MAX: Final = 10
"""Of one user of a cluster, however many sessions this user has; all who see an open cluster are one."""

HEARTBEAT_S: Final = 10.0
"""How often a stream without events sends a comment: a proxy keeps it, and one whose browser is gone is noticed."""


class Event(Struct, frozen=True, kw_only=True):
    name: str
    data: Any
    """A value for JSON."""

    event_id: str = ""
    """What a browser sends as Last-Event-ID when it connects again."""


class TooManyStreams(Exception):
    """The text says what to close."""


class OpenStreams:
    """Counts them. In the event loop only."""

    def __init__(self) -> None:
        self._of_users: Counter[Hashable] = Counter()

    def check(self, user: Hashable) -> None:
        """Raise TooManyStreams if this user may open no further one."""
        if self._of_users[user] >= STREAMS_OF_A_USER_MAX:
            raise TooManyStreams(f"you have {STREAMS_OF_A_USER_MAX} live views open: close one of them")
        if self._of_users.total() >= STREAMS_MAX:
            raise TooManyStreams(f"{STREAMS_MAX} live views are open in this console: try again later")

    @contextmanager
    def one_more(self, user: Hashable) -> Iterator[None]:
        """Count a stream while it is open."""
        self._of_users[user] += 1
        try:
            yield
        finally:
            self._of_users[user] -= 1
            if not self._of_users[user]:
                del self._of_users[user]


async def written(events: AsyncGenerator[Event, None], is_open: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
    """Yield the events as bytes, with heartbeats between them, until the session is not open any more."""
    # A generator that is not run to its end closes what it opened only if it is told so.
    async with aclosing(events) as source:
        waiting: asyncio.Task[Event] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(source))
                await asyncio.wait([waiting], timeout=HEARTBEAT_S)
                if not is_open():
                    yield _bytes_of(Event(name="over", data="your session has ended: log in again"))
                    return
                if not waiting.done():
                    yield b":\n\n"
                    continue
                try:
                    event = waiting.result()
                except StopAsyncIteration:
                    return
                except LoginOver as error:
                    yield _bytes_of(Event(name="over", data=f"{error}: log in again"))
                    return
                waiting = None
                yield _bytes_of(event)
        finally:
            if waiting is not None:
                waiting.cancel()
                await asyncio.wait([waiting])


def _bytes_of(event: Event) -> bytes:
    # JSON has no line ends, so data is one line.
    head = f"id: {event.event_id}\n" if event.event_id else ""
    return f"{head}event: {event.name}\ndata: ".encode() + msgspec.json.encode(event.data) + b"\n\n"
