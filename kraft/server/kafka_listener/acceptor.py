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

from kraft.server.kafka_listener.creation_rate import Allowance
from kraft.server.loop.crowds import ACCEPTED_AT_ONCE

log = structlog.get_logger()

BACKLOG: Final = 4_096
"""Connections that wait to be accepted: many clients reconnect at once when a broker restarts. Where there are more, a
client tries again after a second, so this is also for those that come beside a flood.
"""

REFUSED_AT_ONCE: Final = 32
"""Connections that are refused in one turn, at 17 us each: the requests of others wait for no more."""

RETRY_S: Final = 1.0
"""Pause while the process has no file or memory for another connection."""

_NOTHING_LEFT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_MAPPED: Final = "::ffff:"
"""Begins an IPv4 address where a socket of IPv6 accepts both."""


class Acceptor:
    def __init__(
        self,
        listening: int,
        allowances: Sequence[Allowance],
        admit: Callable[[str], bool],
        connect: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        """`listening` is a bound socket's file descriptor. `admit` takes an address, and returns False to refuse it."""
        # A copy: the server closes the socket itself.
        self._socket = socket.socket(fileno=os.dup(listening))
        self._socket.setblocking(False)
        self._allowances = allowances
        self._admit = admit
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._socket.listen(BACKLOG)
        self._loop.add_reader(self._socket, self._accept_some)

    def close(self) -> None:
        """Accept nothing more."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _accept_some(self) -> None:
        admitted = refused = 0
        while admitted < ACCEPTED_AT_ONCE and refused < REFUSED_AT_ONCE:
            now_s = self._loop.time()
            wait_s = max((allowance.wait_s(now_s) for allowance in self._allowances), default=0.0)
            if wait_s > 0:
                # Those that wait in the system meanwhile are accepted in their order, as in Kafka.
                self._accept_later(wait_s)
                return
            try:
                accepted, name = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NOTHING_LEFT:
                    raise
                log.error("connection not accepted", reason=error.strerror, remedy="raise the limit of open files")
                self._accept_later(RETRY_S)
                return
            if not self._admit(address_of(name)):
                accepted.close()
                refused += 1
                continue
            admitted += 1
            for allowance in self._allowances:
                allowance.take(now_s)
            task = self._loop.create_task(self._serve(accepted))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

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


def address_of(name: object) -> str:
    """Return the host of a socket's name, without the port."""
    match name:
        case (str(host), int(_), *_):
            return host.removeprefix(_MAPPED)
        case _:
            return "?"
