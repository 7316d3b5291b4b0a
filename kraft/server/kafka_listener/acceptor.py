"""Accepts the connections of one listening socket: a few in one turn of the loop, and no faster than is allowed.

asyncio's servers make a transport of each connection before anybody is asked. Here one that is refused costs a system
call or two, so a host that opens thousands in a second takes little from the others.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from kraft.model.addresses import address_of
from kraft.server.kafka_listener.creation_rate import Allowance
from kraft.server.loop.crowds import ACCEPTED_AT_ONCE

log = structlog.get_logger()

BACKLOG: Final = 4_096
"""Connections that wait to be accepted: many clients reconnect at once when a broker restarts. Where there are more, a
client tries again after a second, so this is also for those that come beside a flood.
"""

REFUSED_AT_ONCE_MIN: Final = 32
"""Connections that may be refused in one turn, at 17 us each: the requests of others wait for no more."""

REFUSED_PER_S: Final = 20_000
"""Rate at which connections are refused at least while more of them wait: a third of the loop. With as many a turn,
however long it takes, a host that opens 10,000 in a second fills `BACKLOG` as soon as the turns of a busy broker take
3 ms. The system then drops what others send, and their clients connect a second later, or three.
"""

REFUSED_AT_ONCE_MAX: Final = 512
"""Connections that may be refused in one turn, however long the last one took: 9 ms."""

HELD_MAX: Final = 100
"""Refused connections that are held at once, at each address; further ones are closed immediately."""

RETRY_S: Final = 1.0
"""Pause while the process has no file or memory for another connection."""

_NOTHING_LEFT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    def __init__(
        self,
        listening: int,
        allowances: Sequence[Allowance],
        admit: Callable[[str], float | None],
        connect: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        """`listening` is a bound socket's file descriptor.

        `admit` takes an address, and returns None to serve it. Otherwise the connection is refused: it stays open for
        so many seconds, and nothing is read from it.
        """
        # A copy: the server closes the socket itself.
        self._socket = socket.socket(fileno=os.dup(listening))
        self._socket.setblocking(False)
        self._allowances = allowances
        self._admit = admit
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._left_waiting_s: float | None = None
        """When connections were left waiting, because as many had been accepted as a turn may accept."""
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}
        """Refused connections that are open still."""

    def start(self) -> None:
        self._socket.listen(BACKLOG)
        self._loop.add_reader(self._socket, self._accept_some)

    def close(self) -> None:
        """Accept nothing more."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for held, end in self._held.items():
            end.cancel()
            held.close()
        self._held.clear()

    def _accept_some(self) -> None:
        began_s, since_s = self._loop.time(), self._left_waiting_s
        refused_max = refused_at_once(0.0 if since_s is None else began_s - since_s)
        self._left_waiting_s = None
        admitted = refused = 0
        while admitted < ACCEPTED_AT_ONCE and refused < refused_max:
            now_s = self._loop.time()
            wait_s = max((allowance.wait_s(now_s) for allowance in self._allowances), default=0.0)
            if wait_s > 0:
                # Those that wait in the system meanwhile are accepted in their order, as in Kafka.
                self._accept_later(wait_s)
                return
            if (taken := self._take()) is None:
                return
            accepted, address = taken
            if (held_s := self._admit(address)) is not None:
                self._refuse(accepted, held_s)
                refused += 1
                continue
            admitted += 1
            for allowance in self._allowances:
                allowance.take(now_s)
            task = self._loop.create_task(self._serve(accepted))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        self._left_waiting_s = began_s

    def _take(self) -> tuple[socket.socket, str] | None:
        """Return the next connection with its address; None if there is none, or it has to wait."""
        try:
            accepted, name = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None
        except OSError as error:
            if error.errno not in _NOTHING_LEFT:
                raise
            log.error("connection not accepted", reason=error.strerror, remedy="raise the limit of open files")
            self._accept_later(RETRY_S)
            return None
        return accepted, address_of(name)

    def _refuse(self, accepted: socket.socket, held_s: float) -> None:
        if held_s > 0 and len(self._held) < HELD_MAX:
            self._held[accepted] = self._loop.call_later(held_s, self._end_held, accepted)
        else:
            accepted.close()

    def _end_held(self, held: socket.socket) -> None:
        del self._held[held]
        held.close()

    def _accept_later(self, wait_s: float) -> None:
        self._loop.remove_reader(self._socket)
        self._pause = self._loop.call_later(min(wait_s, RETRY_S), self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket, self._accept_some)

    async def _serve(self, accepted: socket.socket) -> None:
        try:
            # The client may be gone already.
            with suppress(OSError):
                await self._loop.connect_accepted_socket(self._connect, accepted)
        except BaseException:
            accepted.close()
            raise


def refused_at_once(since_s: float) -> int:
    """Return how many may be refused in a turn, where connections have been waiting for so long."""
    return max(REFUSED_AT_ONCE_MIN, min(int(since_s * REFUSED_PER_S), REFUSED_AT_ONCE_MAX))
