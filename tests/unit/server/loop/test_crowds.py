"""A crowd of connections is served some at a time, and nobody in it is left out."""

from __future__ import annotations

import socket
from collections import Counter

from kraft.server.loop.crowds import EVENTS_AT_ONCE, FewAtOnce

CROWD = 5 * EVENTS_AT_ONCE


def test_no_more_than_a_few_ready_connections_are_returned_and_all_have_their_turn() -> None:
    pairs = [socket.socketpair() for _ in range(CROWD)]
    with FewAtOnce() as selector:
        for here, there in pairs:
            selector.register(here, 1, there)
            there.send(b"ready")
        seen: Counter[int] = Counter()
        for _ in range(10):
            found = selector.select(0)
            assert len(found) == EVENTS_AT_ONCE
            seen.update(key.fd for key, _ in found)
        assert set(seen.values()) == {2}
        assert len(seen) == CROWD
    for pair in pairs:
        for each in pair:
            each.close()


def test_a_wait_without_events_ends_in_time() -> None:
    with FewAtOnce() as selector:
        assert selector.select(0.001) == []
        assert selector.select(0) == []


def test_readable_and_writable_connections_are_told_apart() -> None:
    here, there = socket.socketpair()
    with here, there, FewAtOnce() as selector:
        selector.register(here, 1 | 2)
        assert [events for _, events in selector.select(0)] == [2]
        there.send(b"x")
        assert [events for _, events in selector.select(0)] == [1 | 2]
        there.close()
        selector.modify(here, 1)
        assert [events for _, events in selector.select(0)] == [1]
