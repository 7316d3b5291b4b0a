from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, current_thread

import pytest

from kraft.server.loop.threads import BothLocks, in_thread


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


def test_both_locks_are_held_and_released_each_time() -> None:
    one, other = Lock(), Lock()
    both = BothLocks(one, other)
    for _ in range(2):
        with both:
            assert (one.locked(), other.locked()) == (True, True)
        assert (one.locked(), other.locked()) == (False, False)
