from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, current_thread

import pytest

from kraft.server.loop.threads import BothLocks, in_thread, shut_down


def test_work_is_done_in_the_thread_and_its_result_comes_back() -> None:
    def name_of(suffix: str) -> str:
        return current_thread().name + suffix

    async def scenario() -> str:
        with ThreadPoolExecutor(1, thread_name_prefix="disk") as executor:
            return await in_thread(executor, name_of, "!")

    assert asyncio.run(scenario()) == "disk_0!"


def test_what_work_raises_is_raised() -> None:
    def fail() -> None:
        raise OSError("no disk")

    async def scenario() -> None:
        with ThreadPoolExecutor(1) as executor:
            await in_thread(executor, fail)

    with pytest.raises(OSError, match="no disk"):
        asyncio.run(scenario())


@pytest.mark.parametrize(("drops_waiting", "done"), [(True, ["begun"]), (False, ["begun", "waiting"])])
def test_the_end_of_a_thread_is_waited_for_while_the_loop_goes_on(drops_waiting: bool, done: list[str]) -> None:
    async def scenario() -> list[str]:
        executor, is_released, is_begun, found = ThreadPoolExecutor(1), Event(), Event(), list[str]()

        def work() -> None:
            is_begun.set()
            is_released.wait(60)
            found.append("begun")

        executor.submit(work)
        waiting = executor.submit(found.append, "waiting")
        is_begun.wait(60)
        # Only the loop releases the work.
        asyncio.get_running_loop().call_later(0.01, is_released.set)
        await shut_down(executor, ThreadPoolExecutor(1), drops_waiting=drops_waiting)
        assert waiting.cancelled() is drops_waiting
        return found

    assert asyncio.run(scenario()) == done


def test_both_locks_are_held_and_released_each_time() -> None:
    one, other = Lock(), Lock()
    both = BothLocks(one, other)
    for _ in range(2):
        with both:
            assert (one.locked(), other.locked()) == (True, True)
        assert (one.locked(), other.locked()) == (False, False)
