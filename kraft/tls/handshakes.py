"""Handshakes of a listener's clients: how many are under way, and how many of them are carried out in a turn.

A step of a handshake takes up to 1.4 ms of the event loop, and strangers decide how many there are. So steps wait in a
queue, from which each turn of the loop takes a few; handshakes that have begun come before new ones, and the clients'
addresses take turns. Until its turn, a connection costs what it has sent, at most one flight. A connection has
`DEADLINE_S` for everything.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from kraft.model.addresses import AddressTurns, address_of
from kraft.model.refused_for import RefusedFor
from kraft.tls.contexts import ServerContext
from kraft.tls.failures import failure
from kraft.tls.records import RECORD_BYTES_MAX, NotTls, record_end
from kraft.tls.session import TlsBuffers, TlsSession
from kraft.tls.transport import TlsTransport

DEADLINE_S: Final = 10.0
"""Time from the TCP connection to the end of the handshake."""

TURN_S: Final = 0.002
"""Time for steps of handshakes in a turn of the loop; the last step that begins in it may take longer."""

BEGUN_MAX: Final = 256
"""Handshakes for which OpenSSL holds memory at a time, some 60 KiB each. Others wait for one of these to end."""

BEGUN_S_MAX_WHEN_CROWDED: Final = 1.0
"""A client that keeps others waiting for this long with its part of a handshake is disconnected."""

HANDSHAKE_BYTES_MAX: Final = 128 * 1024
"""Limit on what a client sends for a handshake: a chain of certificates takes up to 10 KiB."""

RECORDS_MAX: Final = 64
"""Limit on the records of a handshake: each is a call of OpenSSL."""


class ClientRefused(Exception):
    """A handshake is complete, and its client is refused all the same. The text is one line."""


class TlsPeer(Struct, frozen=True):
    """What the two ends have shown each other, in DER."""

    certificate: bytes | None
    """None: the client showed none, or was not asked for one."""
    own_certificate: bytes


class Handshakes:
    """The clients of all listeners with TLS, until their connections are open."""

    def __init__(
        self,
        buffers: TlsBuffers,
        refused: Callable[[Any, str, RefusedFor], None],
        opened: Callable[[Any], str | None],
        left: Callable[[Any], None],
    ) -> None:
        """All three take the socket name of a client. `refused` is told why it is refused.

        `opened` counts it, and returns why there are too many connections, or None; `left` counts it no more: its
        handshake is complete, or its connection is gone.
        """
        self.buffers = buffers
        self._refused = refused
        self._opened = opened
        self._left = left
        self._loop = asyncio.get_running_loop()
        self._all: dict[ServerHandshake, float] = {}
        """All of them, and when they connected; the oldest first."""
        self._begun: dict[ServerHandshake, float] = {}
        """Those for which OpenSSL holds memory, and since when they wait for their client."""
        self._next: AddressTurns[ServerHandshake] = AddressTurns()
        """Begun, and with something to do."""
        self._new: AddressTurns[ServerHandshake] = AddressTurns()
        self._is_scheduled = False
        self.completed_count = 0

    def __len__(self) -> int:
        return len(self._all)

    # --- called by the handshakes ------------------------------------------------------------------------------------

    def opened(self, handshake: ServerHandshake) -> str | None:
        self._all[handshake] = self._loop.time()
        return self._opened(handshake.peername)

    def is_ready(self, handshake: ServerHandshake) -> None:
        """Give a handshake its turn: records of its client have arrived."""
        queue = self._next if handshake in self._begun else self._new
        queue.append(address_of(handshake.peername), handshake)
        self._go_on_soon()

    def left(self, handshake: ServerHandshake) -> None:
        """Forget a handshake that is complete, or whose connection is gone."""
        if self._all.pop(handshake, None) is not None:
            self._left(handshake.peername)
        if self._begun.pop(handshake, None) is not None and self._new:
            self._go_on_soon()

    def note_refused(self, peername: Any, reason: str, refused_for: RefusedFor = RefusedFor.TLS) -> None:
        """Log why a client is refused, here or after its handshake."""
        self._refused(peername, reason, refused_for)

    # --- called by the listener --------------------------------------------------------------------------------------

    def check(self) -> None:
        """Disconnect those whose time is over. Call once a second."""
        now_s = self._loop.time()
        late = [each for each, since_s in self._all.items() if now_s - since_s > DEADLINE_S]
        for handshake in late:
            handshake.refuse(f"its TLS handshake was not complete after {DEADLINE_S:g} s")
        if self._new:
            slow = [each for each, since_s in self._begun.items() if now_s - since_s > BEGUN_S_MAX_WHEN_CROWDED]
            for handshake in slow:
                if handshake not in self._next:
                    handshake.refuse("it did not go on with its TLS handshake while others waited")

    def refuse_oldest(self, reason: str) -> None:
        """Make room for another client."""
        for handshake in list(self._all)[:1]:
            handshake.refuse(reason, RefusedFor.LIMIT)

    def abort(self) -> None:
        """Close all connections."""
        for handshake in list(self._all):
            handshake.abort()

    # --- turns -------------------------------------------------------------------------------------------------------

    def _go_on_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._take_steps)

    def _take_steps(self) -> None:
        self._is_scheduled = False
        until_s = self._loop.time() + TURN_S
        while (handshake := self._next_ready()) is not None:
            if handshake.step():
                self.completed_count += 1
            elif handshake in self._begun:
                self._begun[handshake] = self._loop.time()
            if self._loop.time() >= until_s:
                break
        if self._next or (self._new and len(self._begun) < BEGUN_MAX):
            self._go_on_soon()

    def _next_ready(self) -> ServerHandshake | None:
        while self._next or (self._new and len(self._begun) < BEGUN_MAX):
            handshake = (self._next or self._new).popleft()
            if handshake in self._all:
                self._begun.setdefault(handshake, self._loop.time())
                return handshake
        return None


class ServerHandshake(asyncio.BufferedProtocol):
    """A client of a listener with TLS, from its TCP connection to the end of its handshake."""

    def __init__(
        self,
        handshakes: Handshakes,
        context: Callable[[], ServerContext],
        make_protocol: Callable[[TlsPeer], asyncio.BufferedProtocol],
        refused: Callable[[Any, str], None] | None = None,
    ) -> None:
        """`context` returns the current one.

        `make_protocol` makes what runs on the connection once it is open. It raises ClientRefused. `refused` is told,
        too, that this client is refused, and why.
        """
        self._refused = refused
        self._handshakes = handshakes
        self._context = context
        self._make_protocol = make_protocol
        self._tcp: asyncio.Transport
        self._received: bytes = b""
        self._received_bytes = 0
        self._records = 0
        self._session: TlsSession | None = None
        self._certificate = b""
        self._is_over = False
        self.peername: Any = None

    # --- called by the TCP transport ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a TCP connection has both directions"
        self._tcp = transport
        self.peername = transport.get_extra_info("peername")
        objection = self._handshakes.opened(self)
        if objection is not None:
            self.refuse(objection, RefusedFor.LIMIT)

    def get_buffer(self, sizehint: int) -> memoryview:
        scratch, received = self._handshakes.buffers.scratch, self._received
        scratch[: len(received)] = received
        return scratch[len(received) : RECORD_BYTES_MAX]

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_over:
            return
        received = self._handshakes.buffers.scratch[: len(self._received) + nbytes]
        self._received = bytes(received)
        self._received_bytes += nbytes
        try:
            is_whole = record_end(received, 0) is not None
        except NotTls as error:
            self.refuse(str(error))
            return
        if self._received_bytes > HANDSHAKE_BYTES_MAX:
            self.refuse(f"its TLS handshake takes more than {HANDSHAKE_BYTES_MAX} bytes")
        elif is_whole:
            # Until its turn it costs no more than this.
            self._tcp.pause_reading()
            self._handshakes.is_ready(self)

    def eof_received(self) -> bool:
        if self._received_bytes and not self._is_over:
            self._note_refused("it closed the connection during the TLS handshake")
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    # --- called by the queue -----------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Go on with the handshake by the records that have arrived. Return True if it is complete."""
        try:
            return self._step()
        except (NotTls, ssl.SSLError, ClientRefused) as error:
            if self._session is not None:
                self._tcp.write(self._session.outgoing())
            self.refuse(failure(error))
        except Exception as error:  # noqa: BLE001  An error of the protocol that would run here must not end others.
            asyncio.get_running_loop().call_exception_handler(
                {"message": "Fatal error: protocol.connection_made() call failed.", "exception": error}
            )
            self.abort()
        return False

    def refuse(self, reason: str, refused_for: RefusedFor = RefusedFor.TLS) -> None:
        if not self._is_over:
            self._note_refused(reason, refused_for)
            self.abort()

    def _note_refused(self, reason: str, refused_for: RefusedFor = RefusedFor.TLS) -> None:
        self._handshakes.note_refused(self.peername, reason, refused_for)
        if self._refused is not None:
            self._refused(self.peername, reason)

    def abort(self) -> None:
        self._end()
        self._tcp.abort()

    def _step(self) -> bool:
        if self._session is None:
            current = self._context()
            self._certificate = current.certificate
            self._session = TlsSession(current.context, self._handshakes.buffers, server_side=True)
        received, begin, is_complete = memoryview(self._received), 0, False
        while not is_complete and (end := record_end(received, begin)) is not None:
            self._records += 1
            if self._records > RECORDS_MAX:
                raise NotTls(f"its TLS handshake takes more than {RECORDS_MAX} records")
            is_complete = self._session.shake(received[begin:end])
            begin = end
        self._received = self._received[begin:]
        self._tcp.write(self._session.outgoing())
        if is_complete:
            self._open(self._session)
        else:
            self._tcp.resume_reading()
        return is_complete

    def _open(self, session: TlsSession) -> None:
        rest, handshakes, peername = self._received, self._handshakes, self.peername
        protocol = self._make_protocol(TlsPeer(session.peer_certificate(), self._certificate))
        self._end()
        transport = TlsTransport(
            self._tcp,
            session,
            handshakes.buffers,
            protocol,
            failed=lambda reason: handshakes.note_refused(peername, reason),
        )
        self._tcp.set_protocol(transport)
        protocol.connection_made(transport)
        transport.begin(rest)

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._received = b""
            self._session = None
            self._handshakes.left(self)
