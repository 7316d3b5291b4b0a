from __future__ import annotations

import asyncio

import pytest

from kraft.server.loop.unread_responses import (
    RESPONSE_RECORD_BYTES_MAX,
    SMALL_RESPONSE_BYTES,
    UnreadResponses,
)
from tests.support.virtual_time import run_virtually

MIB = 1 << 20


def test_the_room_for_responses_is_what_others_left() -> None:
    unread = UnreadResponses(16 * MIB)
    first, second = object(), object()
    assert unread.room_bytes() == RESPONSE_RECORD_BYTES_MAX
    unread.note(first, 6 * MIB)
    unread.note(second, 9 * MIB)
    assert (unread.budget.held, unread.room_bytes(), unread.is_crowded) == (15 * MIB, 1 * MIB, False)
    unread.note(second, 10 * MIB)
    assert (unread.budget.held, unread.room_bytes(), unread.is_crowded) == (16 * MIB, 0, True)


def test_a_small_answer_needs_no_room_and_the_last_one_less_than_it_takes() -> None:
    unread = UnreadResponses(16 * MIB)
    unread.note(object(), 16 * MIB - 1)
    assert unread.takes(1 * MIB)
    unread.note(object(), 1)
    assert not unread.takes(SMALL_RESPONSE_BYTES + 1)
    assert unread.takes(SMALL_RESPONSE_BYTES)


def test_waits_for_room_end_in_the_order_of_arrival() -> None:
    async def wait() -> None:
        unread, reader, came = UnreadResponses(16 * MIB), object(), list[int]()

        async def come(number: int) -> None:
            while not unread.takes(10 * MIB):
                assert await unread.room(asyncio.get_running_loop().time() + 60)
            unread.note(number, 10 * MIB)
            came.append(number)

        unread.note(reader, 16 * MIB)
        coming = [asyncio.create_task(come(number)) for number in range(4)]
        await asyncio.sleep(0)
        unread.note(reader, 0)
        await asyncio.wait(coming, timeout=0.05)
        assert came == [0, 1]
        unread.note(0, 0)
        unread.note(1, 0)
        await asyncio.gather(*coming)
        assert came == [0, 1, 2, 3]
        assert unread.budget.held == 20 * MIB, "who has waited holds nothing by that"

    run_virtually(wait())


def test_a_wait_for_room_times_out() -> None:
    async def wait() -> None:
        unread = UnreadResponses(16 * MIB)
        unread.note(object(), 16 * MIB)
        began = asyncio.get_running_loop().time()
        assert not await unread.room(began + 0.5)
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.5)

    run_virtually(wait())


def test_what_is_read_makes_room_again() -> None:
    unread = UnreadResponses(16 * MIB)
    reader = object()
    unread.note(reader, 20 * MIB)
    unread.note(reader, 1 * MIB)
    assert (unread.budget.held, unread.is_crowded) == (1 * MIB, False)
    unread.note(reader, 0)
    unread.note(reader, 0)
    assert (unread.budget.held, unread.room_bytes()) == (0, RESPONSE_RECORD_BYTES_MAX)


def test_an_answer_counts_from_when_it_is_made_to_when_it_has_been_written() -> None:
    async def make() -> None:
        unread = UnreadResponses(16 * MIB)
        for _ in range(3):
            unread.made(5 * MIB)
        assert unread.room_bytes() == 1 * MIB
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert unread.room_bytes() == RESPONSE_RECORD_BYTES_MAX

    asyncio.run(make())
