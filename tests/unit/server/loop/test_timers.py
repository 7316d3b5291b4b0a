"""Timers end in the order of their times, and those that are due together in several turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from random import Random
from typing import Any

from kraft.server.loop import timers as module
from kraft.server.loop.backlog import Backlog
from kraft.server.loop.timers import Timers
from tests.support.virtual_time import run_virtually

Ended = list[tuple[Hashable, int]]


def with_timers(scenario: Callable[[Timers, Ended], Coroutine[Any, Any, None]], slice_s: float = 0.005) -> Ended:
    """Run a scenario on virtual time; return the timers that ended."""
    ended: Ended = []

    async def run() -> None:
        await scenario(Timers(Backlog(slice_s), lambda key, number: ended.append((key, number))), ended)

    run_virtually(run())
    return ended


def test_timers_end_in_the_order_of_their_times() -> None:
    async def scenario(timers: Timers, ended: Ended) -> None:
        timers.set("late", 1, 3.0)
        timers.set("early", 2, 1.0)
        timers.set("at once", 3, 0.0)
        await asyncio.sleep(2)
        assert ended == [("at once", 3), ("early", 2)]
        await asyncio.sleep(2)

    assert with_timers(scenario) == [("at once", 3), ("early", 2), ("late", 1)]


def test_a_timer_that_is_set_again_replaces_the_earlier_one() -> None:
    async def scenario(timers: Timers, ended: Ended) -> None:
        timers.set("later", 1, 1.0)
        timers.set("later", 2, 5.0)
        timers.set("sooner", 3, 5.0)
        timers.set("sooner", 4, 1.0)
        await asyncio.sleep(2)
        assert ended == [("sooner", 4)]
        await asyncio.sleep(10)

    assert with_timers(scenario) == [("sooner", 4), ("later", 2)]


def test_a_removed_timer_does_not_end() -> None:
    async def scenario(timers: Timers, ended: Ended) -> None:
        timers.set("removed", 1, 1.0)
        timers.set("kept", 2, 1.0)
        timers.remove("removed")
        timers.remove("never set")
        assert len(timers) == 1
        await asyncio.sleep(2)

    assert with_timers(scenario) == [("kept", 2)]


def test_timers_that_are_due_together_end_in_several_turns() -> None:
    async def scenario(timers: Timers, ended: Ended) -> None:
        for number in range(100):
            timers.set(number, number, 1.0)
        await asyncio.sleep(1)
        # A slice of no time has one timer.
        for turns in range(1, 100):
            await asyncio.sleep(0)
            assert len(ended) <= turns + 2
        await asyncio.sleep(1)

    assert with_timers(scenario, slice_s=1e-9) == [(number, number) for number in range(100)]


def test_a_timer_that_is_due_may_be_removed_or_set_again_before_its_turn() -> None:
    ended: Ended = []

    async def run() -> None:
        def end(key: Hashable, number: int) -> None:
            ended.append((key, number))
            if key == 0:
                timers.remove(1)
                timers.set(2, 20, 5.0)

        timers = Timers(Backlog(), end)
        for number in range(4):
            timers.set(number, number, 1.0)
        await asyncio.sleep(2)
        assert ended == [(0, 0), (3, 3)]
        await asyncio.sleep(5)

    run_virtually(run())
    assert ended == [(0, 0), (3, 3), (2, 20)]


def test_nothing_ends_after_all_timers_were_cleared() -> None:
    async def scenario(timers: Timers, ended: Ended) -> None:
        timers.set("a", 1, 1.0)
        timers.clear()
        await asyncio.sleep(2)
        timers.set("b", 2, 1.0)
        await asyncio.sleep(2)

    assert with_timers(scenario) == [("b", 2)]


def test_any_changes_end_the_timers_that_are_left_at_their_times() -> None:
    chance = Random(7)
    expected: dict[int, tuple[float, int]] = {}
    found: dict[Hashable, tuple[float, int]] = {}

    async def run() -> None:
        now_s = asyncio.get_running_loop().time
        timers = Timers(Backlog(), lambda key, number: found.update({key: (round(now_s(), 6), number)}))
        for number in range(20_000):
            key = chance.randrange(500)
            if chance.random() < 0.3:
                timers.remove(key)
                expected.pop(key, None)
            else:
                delay_s = 100 + chance.random() * 100
                timers.set(key, number, delay_s)
                expected[key] = round(now_s() + delay_s, 6), number
        # What was removed or replaced does not pile up.
        assert len(timers._queue) <= 2 * len(timers) + module._UNUSED_MIN + 1
        await asyncio.sleep(300)

    run_virtually(run())
    assert found == expected


def test_a_timer_whose_end_raises_an_error_does_not_stop_the_others() -> None:
    ended: list[Hashable] = []

    def end(key: Hashable, number: int) -> None:
        ended.append(key)
        assert key != "bug"

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        timers = Timers(Backlog(), end)
        timers.set("bug", 1, 1.0)
        timers.set("other", 2, 1.0)
        await asyncio.sleep(2)

    run_virtually(run())
    assert ended == ["bug", "other"]
