"""A backlog does a little of its works in each turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

import pytest

from kraft.server.loop.backlog import Backlog
from tests.support.turn_counter import TurnCounter

SECOND_A_LOOK = 0.001
TURNS_MAX = 10_000


def ticking() -> Callable[[], float]:
    """Return a clock that goes on by a millisecond at each look."""
    looks = count()
    return lambda: next(looks) * SECOND_A_LOOK


def pieces(number: int, done: list[str], name: str) -> Callable[[], bool]:
    rest = iter(range(number - 1, -1, -1))

    def work() -> bool:
        done.append(name)
        return next(rest) > 0

    return work


async def until_done(done: list[str], number: int) -> None:
    for _ in range(TURNS_MAX):
        if len(done) >= number:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{len(done)} of {number} pieces were done")


def test_a_long_work_takes_several_turns() -> None:
    async def scenario() -> int:
        done: list[str] = []
        backlog = Backlog(slice_s=0.005, seconds=ticking())
        async with TurnCounter() as others:
            backlog.add(pieces(40, done, "long"))
            await until_done(done, 40)
        return others.turns

    assert asyncio.run(scenario()) >= 8


def test_works_share_the_turns() -> None:
    async def scenario() -> list[str]:
        done: list[str] = []
        backlog = Backlog()
        backlog.add(pieces(3, done, "a"))
        backlog.add(pieces(2, done, "b"))
        await until_done(done, 5)
        return done

    assert asyncio.run(scenario()) == ["a", "b", "a", "b", "a"]


def test_time_that_a_piece_spends_elsewhere_counts() -> None:
    async def scenario() -> int:
        backlog = Backlog(slice_s=0.005, seconds=lambda: 0.0)
        done: list[str] = []
        work = pieces(40, done, "work")

        def spending() -> bool:
            backlog.spend(0.001)
            return work()

        async with TurnCounter() as others:
            backlog.add(spending)
            await until_done(done, 40)
        return others.turns

    assert asyncio.run(scenario()) >= 8


def test_a_work_that_raises_an_error_does_not_stop_the_others() -> None:
    async def scenario() -> list[str]:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        done: list[str] = []

        def failing() -> bool:
            raise AssertionError("a bug")

        backlog = Backlog()
        backlog.add(failing)
        backlog.add(pieces(2, done, "other"))
        await until_done(done, 2)
        return done

    assert asyncio.run(scenario()) == ["other", "other"]


@pytest.mark.parametrize("number", [1, 3])
def test_a_work_ends_with_its_last_piece(number: int) -> None:
    async def scenario() -> list[str]:
        done: list[str] = []
        Backlog().add(pieces(number, done, "work"))
        for _ in range(10):
            await asyncio.sleep(0)
        return done

    assert asyncio.run(scenario()) == ["work"] * number


def test_those_that_wait_for_a_turn_have_one_after_the_other() -> None:
    async def scenario() -> list[int]:
        backlog, began = Backlog(), list[int]()

        async def work(others: TurnCounter) -> None:
            await backlog.turn()
            began.append(others.turns)

        async with TurnCounter() as others:
            waiting = [asyncio.create_task(work(others)) for _ in range(20)]
            await asyncio.sleep(0)
            assert len(began) == 1, "the first one need not wait"
            waiting.pop().cancel()
            await asyncio.gather(*waiting)
        return began

    began = asyncio.run(scenario())
    assert len(set(began)) == len(began) == 19
