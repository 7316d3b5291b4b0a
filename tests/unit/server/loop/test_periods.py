from __future__ import annotations

import asyncio

import pytest

from kraft.server.loop.periods import period_end, period_left_s
from tests.support.virtual_time import run_virtually


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_tasks_that_began_at_different_times_wake_together() -> None:
    woken_s: list[float] = []

    async def periodic(begins_after_s: float, period_s: float, times: int) -> None:
        await asyncio.sleep(begins_after_s)
        for _ in range(times):
            await period_end(period_s)
            woken_s.append(round(now_s(), 6))

    async def scenario() -> None:
        await asyncio.gather(periodic(0.01, 0.25, 8), periodic(0.03, 0.5, 4), periodic(0.2, 1.0, 2))

    run_virtually(scenario())
    assert len(woken_s) == 14
    assert sorted(set(woken_s)) == [1_000 + 0.25 * number for number in range(1, 9)]


def test_a_task_that_takes_part_of_a_period_does_not_sleep_longer_than_the_rest() -> None:
    async def scenario() -> list[float]:
        ends: list[float] = []
        for work_s in (0.1, 0.4, 0.6):
            await asyncio.sleep(work_s)
            await period_end(0.5)
            ends.append(now_s())
        return ends

    assert run_virtually(scenario()) == pytest.approx([1_000.5, 1_001.0, 1_002.0])


def test_a_timer_that_fired_a_little_early_does_not_fire_twice() -> None:
    async def scenario() -> float:
        await asyncio.sleep(0.25 - 1e-9)
        return period_left_s(0.25)

    assert run_virtually(scenario()) == pytest.approx(0.25)
