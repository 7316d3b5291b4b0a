from __future__ import annotations

import asyncio

from kraft.server.loop.turns import CHARACTERS_OF_ITEM, Turns
from tests.support.turn_counter import TurnCounter


def test_a_long_id_counts_as_many_items() -> None:
    async def scenario() -> list[int]:
        turns, found = Turns(10), []
        for text in ("short", "x" * (9 * CHARACTERS_OF_ITEM)):
            async with TurnCounter() as others:
                await turns.done_with_id(text)
            found.append(others.turns)
        return found

    short, long = asyncio.run(scenario())
    assert short == 0
    assert long >= 1


def test_others_have_their_turn_after_enough_items() -> None:
    async def scenario() -> None:
        seen: list[int] = []
        done = 0

        async def work() -> None:
            nonlocal done
            turns = Turns(10)
            for count in (4, 4, 4, 1, 20, 1):
                done += count
                await turns.done(count)

        async def watch() -> None:
            while done < 34:
                seen.append(done)
                await asyncio.sleep(0)

        await asyncio.gather(work(), watch())
        assert seen == [12, 33]

    asyncio.run(scenario())
