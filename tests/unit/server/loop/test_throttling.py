from __future__ import annotations

import asyncio
from functools import partial

import pytest

from kraft.server.loop.throttling import ENDED_AT_ONCE, Throttling
from kraft.server.loop.timed_steps import TimedSteps
from tests.support.quotas import subject


def now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1_000)


async def test_a_wait_is_over_after_its_time_or_when_quotas_change() -> None:
    throttling = Throttling(now_ms)
    began_ms = now_ms()
    await throttling.wait(2_000)
    assert now_ms() - began_ms == 2_000
    waits = [asyncio.create_task(throttling.wait(3_600_000)) for _ in range(2 * ENDED_AT_ONCE + 1)]
    await asyncio.sleep(1)
    throttling.reconfigure({subject({"user": "alice"}): {"producer_byte_rate": 1.0}})
    await asyncio.gather(*waits)
    assert now_ms() - began_ms == 3_000
    assert throttling.quotas.has_any


async def test_a_pause_that_is_cancelled_calls_nothing() -> None:
    throttling = Throttling(now_ms)
    over: list[str] = []
    throttling.pause(10, lambda: over.append("first")).cancel()
    throttling.pause(10, lambda: over.append("second"))
    cancelled = asyncio.create_task(throttling.wait(10))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.sleep(1)
    throttling.reconfigure({})
    assert over == ["second"]
    assert (throttling.throttled, throttling.throttled_ms) == (3, 30)


async def test_the_steps_of_an_awaitable_are_timed_and_go_on_as_without() -> None:
    async def work() -> str:
        total = 0
        for _ in range(3):
            total += sum(range(20_000))
            await asyncio.sleep(10)
        return str(total)

    timed = TimedSteps(work(), 7)
    assert await timed == str(3 * sum(range(20_000)))
    assert 7 < timed.spent_ns < 1_000_000_000

    async def failing() -> None:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            raise ZeroDivisionError from None

    task = asyncio.create_task(_awaited(TimedSteps(failing())))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(ZeroDivisionError):
        await task


async def _awaited(timed: TimedSteps[None]) -> None:
    await timed


async def test_a_pause_that_is_cancelled_while_others_end_calls_nothing() -> None:
    throttling = Throttling(now_ms)
    over: list[int] = []
    pauses = [throttling.pause(3_600_000, partial(over.append, number)) for number in range(ENDED_AT_ONCE + 1)]
    throttling.reconfigure({})
    pauses[-1].cancel()
    await asyncio.sleep(1)
    assert over == list(range(ENDED_AT_ONCE))
