from __future__ import annotations

import asyncio

from kraft.quorum.apply_queue import APPLIED_AT_ONCE, APPLIED_S_MAX, ApplyQueue
from tests.support.server.replicas import settle
from tests.support.turn_counter import TurnCounter


async def test_durable_entries_are_applied_in_order_and_at_once_if_they_are_few() -> None:
    applied: list[int] = []
    queue = ApplyQueue(lambda index, term, data: applied.append(index))
    for index in range(5):
        queue.add(index, 1, b"")
    queue.apply_up_to(lambda: 2)
    assert applied == [0, 1, 2]
    queue.apply_up_to(lambda: 9)
    assert applied == [0, 1, 2, 3, 4]


async def test_many_entries_leave_turns_for_others() -> None:
    applied: list[int] = []
    queue = ApplyQueue(lambda index, term, data: applied.append(index))
    for index in range(5 * APPLIED_AT_ONCE):
        queue.add(index, 1, b"")
    async with TurnCounter() as others:
        queue.apply_up_to(lambda: 3 * APPLIED_AT_ONCE)
        # What is asked for meanwhile takes its turn.
        queue.apply_up_to(lambda: 3 * APPLIED_AT_ONCE)
        assert len(applied) == APPLIED_AT_ONCE
        await settle()
        assert others.turns >= 2
    assert applied == list(range(3 * APPLIED_AT_ONCE + 1))


async def test_entries_that_take_long_are_applied_one_in_a_turn() -> None:
    loop, applied = asyncio.get_running_loop(), list[int]()

    def slowly(index: int, term: int, data: bytes) -> None:
        applied.append(index)
        passed_s = loop.time() + APPLIED_S_MAX
        loop.time = lambda: passed_s  # type: ignore[method-assign]

    queue = ApplyQueue(slowly)
    for index in range(3):
        queue.add(index, 1, b"")
    queue.apply_up_to(lambda: 9)
    assert applied == [0]
    await settle()
    assert applied == [0, 1, 2]


async def test_after_the_voter_stopped_nothing_is_applied() -> None:
    applied: list[int] = []
    queue = ApplyQueue(lambda index, term, data: applied.append(index))
    for index in range(2 * APPLIED_AT_ONCE):
        queue.add(index, 1, b"")
    queue.apply_up_to(lambda: 9_999)
    queue.clear()
    await settle()
    assert len(applied) == APPLIED_AT_ONCE
