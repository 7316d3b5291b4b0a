"""Server-sent events: written as the standard has them, bounded, and over when the session is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from typing import Any

import pytest

from kraft.console import streams
from kraft.console.asking import LoginOver
from kraft.console.streams import STREAMS_MAX, STREAMS_OF_A_USER_MAX, Event, OpenStreams, TooManyStreams, written


class Source:
    """Events that come, and then nothing for long."""

    def __init__(self, *events: Event, then_ends: bool = False) -> None:
        self._events = events
        self._then_ends = then_ends
        self.closed = False

    async def run(self) -> AsyncGenerator[Event, None]:
        try:
            for each in self._events:
                yield each
            if not self._then_ends:
                await asyncio.Event().wait()
        finally:
            self.closed = True


async def _all(source: Source, is_open: list[bool]) -> list[bytes]:
    """Return what is written; whether the session is open is told by the list, and by its last one from then on."""
    opens = iter(is_open)
    return [each async for each in written(source.run(), lambda: next(opens, is_open[-1]))]


async def test_events_are_written_as_the_standard_has_them_and_a_source_that_ends_ends_them() -> None:
    source = Source(
        Event(name="record", data={"value": "a\nb"}, event_id="0:7"), Event(name="skipped", data=3), then_ends=True
    )
    assert await _all(source, [True]) == [
        b'id: 0:7\nevent: record\ndata: {"value":"a\\nb"}\n\n',
        b"event: skipped\ndata: 3\n\n",
    ]
    assert source.closed


async def test_a_silent_source_has_heartbeats_and_the_end_of_the_session_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.01)
    source = Source()
    silent, over = await _all(source, [True, False])
    assert silent == b":\n\n"
    assert over.startswith(b"event: over\n")
    assert source.closed


async def test_a_browser_that_is_gone_closes_the_source() -> None:
    source = Source(Event(name="one", data=1))
    running = written(source.run(), lambda: True)
    await anext(running)
    await running.aclose()
    assert source.closed


def test_streams_are_bounded_for_a_user_and_in_all() -> None:
    opened = OpenStreams()
    with ExitStack() as all_of_them:
        for number in range(STREAMS_MAX):
            user = f"user {number // STREAMS_OF_A_USER_MAX}"
            opened.check(user)
            all_of_them.enter_context(opened.one_more(user))
        with pytest.raises(TooManyStreams, match="you have 10"):
            opened.check("user 0")
        with pytest.raises(TooManyStreams, match="50 live views"):
            opened.check("another")


def test_a_stream_that_is_over_is_not_counted() -> None:
    opened = OpenStreams()
    for _ in range(STREAMS_MAX * 2):
        opened.check("user")
        with opened.one_more("user"):
            opened.check("user")


async def test_a_stream_whose_user_is_not_let_in_any_more_says_so() -> None:
    async def refused() -> AsyncGenerator[Event, None]:
        yield Event(name="row", data=1)
        nobody: Any = None
        raise LoginOver(nobody)

    found = [each async for each in written(refused(), lambda: True)]
    assert b"event: over" in found[-1]
    assert b"log in again" in found[-1]
