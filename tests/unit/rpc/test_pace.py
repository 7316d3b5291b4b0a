from __future__ import annotations

import asyncio

from kraft.rpc.pace import Pace


async def test_the_next_message_is_handled_after_a_pause_and_once_the_one_before_is_begun() -> None:
    pace, steps = Pace(), list[str]()
    begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        steps.append("paused")

    pace.begin_next_after(begun)
    pace.pause(wait)
    over = asyncio.ensure_future(pace.over())
    await asyncio.sleep(0)
    assert (steps, over.done()) == (["paused"], False)
    begun.set_result(None)
    await over
    assert not pace.is_paused


async def test_a_reader_that_stops_waiting_leaves_what_it_waited_for_to_its_request() -> None:
    pace = Pace()
    begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    pace.begin_next_after(begun)
    over = asyncio.ensure_future(pace.over())
    await asyncio.sleep(0)
    over.cancel()
    await asyncio.gather(over, return_exceptions=True)
    assert not begun.cancelled()
