"""Calls over gRPC count with the time in which they were carried out, and in which they waited."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import Awaitable
from typing import Any

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.calls import METADATA
from kraft.server.apis.timed_calls import timed
from kraft.server.kafka_listener.request_times import ApiTimes

pytestmark = pytest.mark.real_time


async def work_and_wait(request: str) -> str:
    work(0.02)
    await asyncio.sleep(0.05)
    work(0.01)
    return request


def work(seconds: float) -> None:
    """Hold the event loop."""
    time.sleep(seconds)


async def test_work_is_local_and_waiting_is_remote() -> None:
    times = ApiTimes()
    handle = timed(METADATA, work_and_wait, times)
    assert await handle("answer") == "answer"
    # As gRPC's streams begin them.
    assert await asyncio.ensure_future(handle("again")) == "again"
    assert times.count == sum(times.durations) == 2
    assert 0.06 <= times.local_s < 2 * 0.05 + 0.06
    assert times.remote_s >= 2 * 0.04


async def test_what_is_answered_at_once_or_by_a_future_counts_too() -> None:
    times = ApiTimes()

    def handle(request: str) -> Awaitable[str]:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.02, answer.set_result, request)
        return answer

    assert await timed(METADATA, handle, times)("later") == "later"
    assert times.count == 1
    assert times.remote_s >= 0.015 > times.local_s


async def test_a_refusal_is_an_answer_and_a_cancellation_is_none() -> None:
    times = ApiTimes()

    async def refuse(_: object) -> None:
        raise Refusal(ErrorCode.INVALID_REQUEST, "no")

    with pytest.raises(Refusal):
        await timed(METADATA, refuse, times)(None)
    assert times.count == 1
    waits = asyncio.ensure_future(timed(METADATA, work_and_wait, times)("gone"))
    await asyncio.sleep(0)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert times.count == 1


async def test_a_call_that_is_cancelled_before_it_began_leaves_nothing_behind() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        waits: asyncio.Future[Any] = asyncio.ensure_future(timed(METADATA, work_and_wait, ApiTimes())("gone"))
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        gc.collect()
    # What other tests of this process left to the collector is not looked at.
    assert [str(each.message) for each in warned if issubclass(each.category, RuntimeWarning)] == []
