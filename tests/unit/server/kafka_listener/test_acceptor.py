"""Accepting on real sockets: everybody in a crowd, a few in one turn of the loop, and nobody who is refused."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from kraft.server.kafka_listener import acceptor as acceptor_module
from kraft.server.kafka_listener.acceptor import (
    REFUSED_AT_ONCE_MAX,
    REFUSED_AT_ONCE_MIN,
    REFUSED_PER_S,
    Acceptor,
    refused_at_once,
)
from kraft.server.loop.crowds import ACCEPTED_AT_ONCE

CROWD = 5 * ACCEPTED_AT_ONCE


class Accepted:
    """Counts connections, which it closes, and whom it was asked about."""

    def __init__(self, held_s: float | None = None) -> None:
        """With `held_s`, none is served, and each is held for so long."""
        self.asked: list[str] = []
        self.served = 0
        self._held_s = held_s

    def admit(self, address: str) -> float | None:
        self.asked.append(address)
        return self._held_s

    def connect(self) -> asyncio.Protocol:
        counts = self

        class Counting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                counts.served += 1
                transport.close()

        return Counting()

    @contextmanager
    def accepting(self) -> Iterator[Any]:
        """Accept at the address that this yields."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            acceptor = Acceptor(listening.fileno(), [], self.admit, self.connect)
            acceptor.start()
            try:
                yield listening.getsockname()
            finally:
                acceptor.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110  What is waited for happens on the other side of a socket.
            await asyncio.sleep(0.005)


@pytest.mark.real_time
async def test_connections_that_come_together_are_all_accepted_a_few_in_each_turn() -> None:
    accepted = Accepted()
    with accepted.accepting() as address:
        # Nobody accepts while these connect: all of them wait in the system.
        clients = [socket.create_connection(address, timeout=30) for _ in range(CROWD)]
        before = most = 0
        for _ in range(10 * CROWD):
            await asyncio.sleep(0)
            before, most = len(accepted.asked), max(most, len(accepted.asked) - before)
        for client in clients:
            client.close()
        await until(lambda: accepted.served == CROWD)
    assert most == ACCEPTED_AT_ONCE


@pytest.mark.real_time
async def test_a_connection_that_is_refused_is_closed_and_nothing_is_made_of_it() -> None:
    accepted = Accepted(held_s=0)
    with accepted.accepting() as address:
        reader, writer = await asyncio.open_connection(*address)
        assert await reader.read() == b""
        writer.close()
    assert (accepted.asked, accepted.served) == (["127.0.0.1"], 0)


@pytest.mark.real_time
async def test_a_loop_that_has_much_else_to_do_refuses_no_fewer_in_a_second() -> None:
    """Otherwise those that wait in the system fill its queue, and what others send there is dropped for seconds."""
    accepted = Accepted(held_s=0)
    refused = []
    with accepted.accepting() as address, ExitStack() as opened:
        for _ in range(10 * REFUSED_AT_ONCE_MIN):
            opened.enter_context(socket.create_connection(address, timeout=30))
        for _ in range(3):
            # What others' requests take in a turn.
            asyncio.get_running_loop().call_soon(time.sleep, 0.01)
            await asyncio.sleep(0)
            refused.append(len(accepted.asked))
    assert REFUSED_AT_ONCE_MIN in refused
    assert refused[-1] > 4 * REFUSED_AT_ONCE_MIN


def test_a_turn_refuses_for_a_third_of_the_time_since_the_last_one_within_bounds() -> None:
    assert refused_at_once(0.0) == refused_at_once(0.001) == REFUSED_AT_ONCE_MIN
    assert refused_at_once(0.01) == 0.01 * REFUSED_PER_S
    assert refused_at_once(60.0) == REFUSED_AT_ONCE_MAX


@pytest.mark.real_time
async def test_some_that_are_refused_are_held_first_and_the_others_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor_module, "HELD_MAX", 1)
    accepted = Accepted(held_s=0.1)
    with accepted.accepting() as address:
        held, writer = await asyncio.open_connection(*address)
        await until(lambda: len(accepted.asked) == 1)
        one_more, another = await asyncio.open_connection(*address)
        writer.write(b"never read")
        assert await one_more.read() == b""
        assert not held.at_eof()
        # The system resets it: there are bytes that nobody has read.
        with pytest.raises(ConnectionResetError):
            await held.read()
        # The last one is held when the acceptor closes.
        last, third = await asyncio.open_connection(*address)
        await until(lambda: len(accepted.asked) == 3)
    assert await last.read() == b""
    assert accepted.served == 0
    for each in (writer, another, third):
        each.close()


@pytest.mark.real_time
async def test_without_files_or_memory_it_accepts_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor_module, "RETRY_S", 0.05)
    failures = [errno.EMFILE, errno.ENOBUFS]

    class Exhausted(socket.socket):
        def accept(self) -> Any:
            if failures:
                raise OSError(failures.pop(), "nothing is left")
            return super().accept()

    monkeypatch.setattr(socket, "socket", Exhausted)
    accepted = Accepted()
    with accepted.accepting() as address:
        _, writer = await asyncio.open_connection(*address)
        await until(lambda: accepted.served == 1)
        writer.close()
    assert failures == []


@pytest.mark.real_time
async def test_an_acceptor_that_is_closed_accepts_nothing() -> None:
    accepted = Accepted()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        acceptor = Acceptor(listening.fileno(), [], accepted.admit, accepted.connect)
        acceptor.start()
        acceptor.close()
        with socket.create_connection(listening.getsockname(), timeout=30):
            await asyncio.sleep(0.05)
    assert accepted.asked == []
