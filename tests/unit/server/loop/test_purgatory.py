from __future__ import annotations

import asyncio

import pytest

from kraft.model.errors import ErrorCode
from kraft.model.ids import Offset
from kraft.server.loop.purgatory import Notifier, ProducePurgatory, Watch


def outcomes(*parked: asyncio.Future[ErrorCode]) -> list[ErrorCode | None]:
    return [future.result() if future.done() else None for future in parked]


@pytest.mark.real_time
async def test_a_high_watermark_completes_those_below_it_and_no_others() -> None:
    purgatory = ProducePurgatory()
    parked = [purgatory.park(Offset(offset)) for offset in (10, 20, 30)]
    purgatory.complete_below(Offset(20))
    assert outcomes(*parked) == [ErrorCode.NONE, ErrorCode.NONE, None]


@pytest.mark.real_time
async def test_a_duplicate_that_is_parked_behind_later_records_does_not_wait_for_them() -> None:
    purgatory = ProducePurgatory()
    later, duplicate = purgatory.park(Offset(20)), purgatory.park(Offset(10))
    purgatory.complete_below(Offset(10))
    assert outcomes(later, duplicate) == [None, ErrorCode.NONE]
    purgatory.complete_below(Offset(20))
    assert outcomes(later) == [ErrorCode.NONE]


@pytest.mark.real_time
async def test_decided_produces_complete_and_the_others_keep_waiting() -> None:
    purgatory = ProducePurgatory()
    parked = [purgatory.park(Offset(offset)) for offset in (10, 20)]
    purgatory.complete(lambda offset: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if offset == 20 else None)
    assert outcomes(*parked) == [None, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    purgatory.abandon(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert outcomes(*parked)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.real_time
async def test_a_cancelled_produce_is_not_completed() -> None:
    purgatory = ProducePurgatory()
    gone, waiting = purgatory.park(Offset(10)), purgatory.park(Offset(10))
    gone.cancel()
    purgatory.complete_below(Offset(10))
    assert gone.cancelled()
    assert outcomes(waiting) == [ErrorCode.NONE]


@pytest.mark.real_time
async def test_cancelled_produces_take_no_memory() -> None:
    purgatory = ProducePurgatory()
    first = purgatory.park(Offset(5))
    for _ in range(1_000):
        purgatory.park(Offset(10)).cancel()
        await asyncio.sleep(0)
    assert len(purgatory) == 1
    purgatory.abandon(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert outcomes(first) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_a_watch_is_woken_by_any_of_the_notifiers_it_watches() -> None:
    first, second = Notifier(), Notifier()
    with Watch([first, second]) as watch:
        watch.again()
        asyncio.get_running_loop().call_later(1, second.notify)
        assert await watch.wait(60)
        assert asyncio.get_running_loop().time() == pytest.approx(1_001)


async def test_a_change_between_the_check_and_the_wait_is_not_missed() -> None:
    notifier = Notifier()
    with Watch([notifier]) as watch:
        watch.again()
        notifier.notify()
        assert await watch.wait(60)
        assert await watch.wait(0)
        watch.again()
        assert not await watch.wait(0)


async def test_a_watch_ends_at_its_timeout_and_is_removed_afterwards() -> None:
    notifier = Notifier()
    with Watch([notifier]) as watch:
        assert not await watch.wait(0.5)
        assert not await watch.wait(-1)
    notifier.notify()
    assert not watch.moved.is_set()
