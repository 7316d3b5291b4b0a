from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from kraft.server.loop.slow_reads import SlowReads
from tests.support.server.replicas import InlineExecutor, settle

pytestmark = pytest.mark.real_time

HOUR_S = 3_600.0


class HeldThread(Executor):
    """Does one thing after the other, and each when the test says so."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        self._waiting.append((done, lambda: work(*arguments, **named)))
        return done

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def let_go(self) -> None:
        """Does the first that waits, and lets the loop take notice."""
        done, work = self._waiting.pop(0)
        done.set_result(work())
        await settle()


class Steps:
    """A generator of so many steps, that notes in `log` when each is done."""

    def __init__(self, name: str, count: int, log: list[str]) -> None:
        self.name = name
        self.closed = 0
        self._count = count
        self._log = log

    def __call__(self) -> Generator[None, None, str]:
        try:
            for _ in range(self._count):
                self._log.append(self.name)
                yield
        finally:
            self.closed += 1
        return f"{self.name} is done"


async def test_the_steps_result_is_the_outcome() -> None:
    with ThreadPoolExecutor(1) as thread:
        reads = SlowReads(thread)
        log: list[str] = []
        assert await reads.of_request(HOUR_S).run(Steps("a", 5, log)()) == "a is done"
        assert log == ["a"] * 5


async def test_an_error_in_the_steps_is_raised_and_others_continue() -> None:
    def broken() -> Generator[None, None, str]:
        yield
        raise FileNotFoundError("gone")

    reads = SlowReads(InlineExecutor())
    with pytest.raises(FileNotFoundError, match="gone"):
        await reads.of_request(HOUR_S).run(broken())
    assert await reads.of_request(HOUR_S).run(Steps("a", 1, [])()) == "a is done"


async def test_one_step_is_done_at_a_time_and_the_request_with_the_fewest_is_next() -> None:
    thread, log = HeldThread(), list[str]()
    reads = SlowReads(thread)
    long = [asyncio.ensure_future(reads.of_request(HOUR_S).run(Steps(name, 50, log)())) for name in "ab"]
    await settle()
    for _ in range(20):
        assert thread.waiting == 1
        await thread.let_go()
    assert log == ["a", "b"] * 10
    short = asyncio.ensure_future(reads.of_request(HOUR_S).run(Steps("short", 2, log)()))
    await settle()
    for _ in range(6):
        await thread.let_go()
    assert log[20:] == ["a", "short", "b", "short", "a"], "the one under way, then every second one, the end too"
    assert short.done()
    for each in long:
        each.cancel()
    await settle()


async def test_a_request_with_many_reads_is_counted_as_one() -> None:
    thread, log = HeldThread(), list[str]()
    reads = SlowReads(thread)
    many = reads.of_request(HOUR_S)

    async def one_after_the_other() -> None:
        for _ in range(10):
            await many.run(Steps("many", 1, log)())

    running = asyncio.ensure_future(one_after_the_other())
    await settle()
    for _ in range(8):
        await thread.let_go()
    log.clear()
    others = [asyncio.ensure_future(reads.of_request(HOUR_S).run(Steps(name, 3, log)())) for name in "xy"]
    await settle()
    for _ in range(9):
        await thread.let_go()
    assert log == ["many", "x", "y", "x", "y", "x", "y"][: len(log)]
    assert all(each.done() for each in others)
    running.cancel()
    await settle()


async def test_a_cancelled_request_leaves_its_running_step_and_nothing_open() -> None:
    thread, log = HeldThread(), list[str]()
    reads = SlowReads(thread)
    gone, stays = Steps("gone", 50, log), Steps("stays", 1, log)
    going = asyncio.ensure_future(reads.of_request(HOUR_S).run(gone()))
    staying = asyncio.ensure_future(reads.of_request(HOUR_S).run(stays()))
    await settle()
    await thread.let_go()
    await thread.let_go()
    assert log == ["gone", "stays"]
    going.cancel()
    await settle()
    assert going.cancelled()
    assert gone.closed == 0
    while thread.waiting:
        await thread.let_go()
    assert gone.closed == 1
    assert await staying == "stays is done"


async def test_a_request_cancelled_while_it_waits_delays_no_other() -> None:
    thread, log = HeldThread(), list[str]()
    reads = SlowReads(thread)
    tasks = [asyncio.ensure_future(reads.of_request(HOUR_S).run(Steps(name, 1, log)())) for name in "abc"]
    await settle()
    tasks[1].cancel()
    await settle()
    while thread.waiting:
        await thread.let_go()
    assert log == ["a", "c"]
    assert [task.done() for task in tasks] == [True] * 3


async def test_a_turn_of_a_request_cancelled_at_that_moment_is_passed_on() -> None:
    thread, log = HeldThread(), list[str]()
    reads = SlowReads(thread)
    tasks = [asyncio.ensure_future(reads.of_request(HOUR_S).run(Steps(name, 1, log)())) for name in "abc"]
    await settle()
    work = thread._waiting.pop(0)
    work[0].set_result(work[1]())
    # The turn is given to b now, and b is gone before it takes it.
    await asyncio.sleep(0)
    tasks[1].cancel()
    await settle()
    while thread.waiting:
        await thread.let_go()
    assert "c" in log
    assert tasks[2].done()


async def test_the_deadline_of_a_request_covers_all_its_reads() -> None:
    reads = SlowReads(InlineExecutor())
    request = reads.of_request(0.0)
    endless = Steps("a", 1_000_000, [])
    with pytest.raises(TimeoutError):
        await request.run(endless())
    assert endless.closed == 1
    with pytest.raises(TimeoutError):
        await request.run(Steps("b", 1_000_000, [])())
    assert await reads.of_request(HOUR_S).run(Steps("c", 1, [])()) == "c is done"
