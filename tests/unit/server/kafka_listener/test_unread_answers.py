from __future__ import annotations

import asyncio

from kraft.server.kafka_listener.unread_answers import ANSWER_BYTES_MAX, UnreadAnswers

MIB = 1 << 20


def test_the_room_for_answers_is_what_others_left() -> None:
    unread = UnreadAnswers(16 * MIB)
    first, second = object(), object()
    assert unread.room_bytes() == ANSWER_BYTES_MAX
    unread.note(first, 6 * MIB)
    unread.note(second, 7 * MIB)
    assert (unread.total_bytes, unread.room_bytes(), unread.is_crowded) == (13 * MIB, 3 * MIB, False)
    unread.note(second, 11 * MIB)
    assert (unread.total_bytes, unread.room_bytes(), unread.is_crowded) == (17 * MIB, 0, True)


def test_what_is_read_makes_room_again() -> None:
    unread = UnreadAnswers(16 * MIB)
    reader = object()
    unread.note(reader, 20 * MIB)
    unread.note(reader, 1 * MIB)
    assert (unread.total_bytes, unread.is_crowded) == (1 * MIB, False)
    unread.note(reader, 0)
    unread.note(reader, 0)
    assert (unread.total_bytes, unread.room_bytes()) == (0, ANSWER_BYTES_MAX)


def test_an_answer_counts_from_when_it_is_made_to_when_it_has_been_written() -> None:
    async def make() -> None:
        unread = UnreadAnswers(16 * MIB)
        for _ in range(3):
            unread.made(5 * MIB)
        assert unread.room_bytes() == 1 * MIB
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert unread.room_bytes() == ANSWER_BYTES_MAX

    asyncio.run(make())
