"""Connections of browsers, bounded before anybody has logged in: how many there are, and how long each may take.

A connection waits until a request has arrived whole; then it is in use until the answer is sent. What waits is closed
after a while, and at once where it takes the place of another one, so that who holds connections locks nobody out.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Collection
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final, Protocol

import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from kraft.console.protection import is_in_networks
from kraft.model.addresses import counted_address

log = structlog.get_logger()

CONNECTIONS_MAX: Final = 1_000

OF_ADDRESS_MAX: Final = 100
"""From one address, or one network of IPv6; trusted proxies may have all. A browser has six."""

HEAD_S_MAX: Final = 10.0
"""Longest wait for the lines before the body of a request, from the connection or the last answer on."""

STALLED_S_MAX: Final = 30.0
"""Longest time in which nothing of an answer is taken."""

LOGGED_AGAIN_S: Final = 60.0


_NOTHING_LEFT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class OutOfFiles:
    """Handler of asyncio's errors that says once a minute that no connection can be accepted.

    For asyncio that is an error with a traceback for each place of the backlog, a hundred each second.
    """

    def __init__(self) -> None:
        self._said_s: float | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _NOTHING_LEFT:
            loop.default_exception_handler(context)
            return
        if self._said_s is not None and loop.time() - self._said_s < LOGGED_AGAIN_S:
            return
        self._said_s = loop.time()
        remedy = "find what holds so many connections, or raise the limit of open files (ulimit -Hn)"
        log.error("connections wait to be accepted", reason=error.strerror, remedy=remedy)


class Closable(Protocol):
    """A connection, as its place is given to another."""

    def give_up(self) -> None: ...


class Places:
    """Which connections there are, and which of them wait, in the order since when."""

    def __init__(self, trusted: Collection[IPv4Network | IPv6Network], most: int = CONNECTIONS_MAX) -> None:
        self._trusted = trusted
        self._most = most
        self._open: dict[Closable, str] = {}
        self._waiting: dict[Closable, None] = {}
        self._of_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def take(self, connection: Closable, host: str) -> bool:
        """Return whether there is a place for the connection, after one that waits has lost its own."""
        address = counted_address(host)
        most_of_address = self._most if is_in_networks(host, self._trusted) else OF_ADDRESS_MAX
        if self._of_address[address] >= most_of_address and not self._make_place(address):
            return False
        if len(self._open) >= self._most and not self._make_place(None):
            return False
        self._open[connection] = address
        self._of_address[address] += 1
        self._waiting[connection] = None
        return True

    def leave(self, connection: Closable) -> None:
        address = self._open.pop(connection, None)
        self._waiting.pop(connection, None)
        if address is not None:
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    def waits(self, connection: Closable) -> None:
        if connection in self._open:
            self._waiting.pop(connection, None)
            self._waiting[connection] = None

    def is_used(self, connection: Closable) -> None:
        self._waiting.pop(connection, None)

    def _make_place(self, address: str | None) -> bool:
        """Close the connection that has waited longest, of this address or of any; return whether there was one."""
        found = next((each for each in self._waiting if address in (None, self._open[each])), None)
        if found is None:
            return False
        self.leave(found)
        found.give_up()
        return True


class BoundedConnection(H11Protocol):
    """uvicorn's connection, with a place among others, and with deadlines before and after the application."""

    _logged_s = -LOGGED_AGAIN_S

    def __init__(self, *arguments: Any, places: Places, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._places = places
        self._patience: asyncio.TimerHandle | None = None
        """Ends the wait for a request, or for an answer to be taken: never both."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        super().connection_made(transport)
        host = "?" if self.client is None else self.client[0]
        if self._places.take(self, host):
            self._wait()
            return
        self.give_up()
        now_s = asyncio.get_running_loop().time()
        if now_s - BoundedConnection._logged_s >= LOGGED_AGAIN_S:
            BoundedConnection._logged_s = now_s
            log.warning("connections refused", address=host, connections=len(self._places))

    def connection_lost(self, exc: Exception | None) -> None:
        self._places.leave(self)
        self._be_patient()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._be_patient()
            if not cycle.more_body:
                self._places.is_used(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # A request that had arrived already may have begun.
        if self.cycle.response_complete and not self.transport.is_closing():
            self._wait()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._give_up_after(STALLED_S_MAX)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._be_patient()

    def give_up(self) -> None:
        """Close the connection, whatever it is about."""
        self.transport.abort()

    def _wait(self) -> None:
        self._places.waits(self)
        self._give_up_after(HEAD_S_MAX)

    def _give_up_after(self, seconds: float) -> None:
        self._be_patient()
        self._patience = asyncio.get_running_loop().call_later(seconds, self.give_up)

    def _be_patient(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
