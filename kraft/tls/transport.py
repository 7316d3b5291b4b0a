"""Transport of asyncio that encrypts: any `asyncio.BufferedProtocol` runs on it as on a TCP connection.

It is the protocol of a TCP transport and the transport of another protocol. Ciphertext is received into a buffer that
all connections share, and decrypted straight into the buffer that the protocol offers. What is written is encrypted
when the socket has room for it, so ciphertext waits only for that which the system has not taken.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import Any, Final

from kraft.tls.failures import failure
from kraft.tls.records import RECORD_BYTES_MAX, NotTls, record_end
from kraft.tls.session import RECEIVED_BYTES_MAX, TlsBuffers, TlsSession
from kraft.tls.unsent import Buffer, UnsentPieces

RECEIVED_BYTES_MIN: Final = 32 * 1024
"""Ciphertext that a connection receives at once, at first. While its records are large it doubles."""

LARGE_RECORD_BYTES: Final = 4 * 1024

RECORDS_AT_ONCE_MAX: Final = 256
"""Records of one connection that are decrypted before others have their turn; tiny ones take 3 microseconds each."""

RECORDS_WITHOUT_DATA_MAX: Final = 64
"""Records in a row that hold nothing for the protocol, such as key updates: more of them are an attack."""

ANSWERS_BYTES_MAX: Final = 16 * 1024
"""Limit on answers to the other end's key updates while it does not read."""

SENT_AT_ONCE_BYTES: Final = 1 << 20
"""Plaintext of one connection that is encrypted before others have their turn."""

UNSENT_HIGH_BYTES: Final = 64 * 1024
UNSENT_LOW_BYTES: Final = 16 * 1024
"""As asyncio's own transports: the protocol is told to pause above the one, and to resume at the other."""


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """An open connection, after its handshake. It reads once `begin` is called."""

    def __init__(
        self,
        tcp: asyncio.Transport,
        session: TlsSession,
        buffers: TlsBuffers,
        protocol: asyncio.BufferedProtocol,
        *,
        failed: Callable[[str], None],
    ) -> None:
        """Take over a TCP transport that does not read.

        `failed` is called with the reason when the other end breaks TLS.
        """
        super().__init__()
        self._tcp = tcp
        self._session = session
        self._buffers = buffers
        self._protocol = protocol
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        # Received:
        self._rest: Buffer = b""
        """Ciphertext that is not decrypted: a record that is not complete, or what arrived before a pause."""
        self._room: memoryview | None = None
        """The protocol's buffer, between two calls of the TCP transport in the same callback."""
        self._receive_bytes = RECEIVED_BYTES_MIN
        self._has_unread = False
        """OpenSSL holds plaintext of a record."""
        self._is_paused = False
        self._is_tcp_paused = True
        self._is_going_on = False
        self._without_data = 0
        # Sent:
        self._unsent = UnsentPieces()
        self._is_tcp_full = False
        self._is_protocol_paused = False
        self._is_sending_on = False
        self._answers_bytes = 0
        # The end:
        self._is_closing = False
        self._sends_eof = False
        self._is_eof_sent = False
        self._is_lost = False
        self._error: Exception | None = None

    # --- asyncio.BaseTransport ---------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._session.ssl_object
        if name == "peer_certificate":
            return self._session.peer_certificate()
        if name == "tcp_transport":
            return self._tcp
        return self._tcp.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.BufferedProtocol), "it receives into buffers of its own"
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._is_closing or self._is_lost or self._tcp.is_closing()

    def close(self) -> None:
        """Read nothing more, send what was written and a close_notify, then close the TCP connection."""
        if self.is_closing():
            return
        self._is_closing = True
        self._pause_tcp()
        self._send()

    def abort(self) -> None:
        """Close at once and drop what was not sent."""
        self._is_closing = True
        self._unsent.clear()
        self._tcp.abort()

    # --- asyncio.ReadTransport ---------------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        return not self._is_paused and not self.is_closing()

    def pause_reading(self) -> None:
        if self.is_reading():
            self._is_paused = True
            self._pause_tcp()

    def resume_reading(self) -> None:
        if self._is_paused and not self.is_closing():
            self._is_paused = False
            if self._has_unread or self._rest:
                self._go_on_soon()
            else:
                self._resume_tcp()

    # --- asyncio.WriteTransport --------------------------------------------------------------------------------------

    def get_write_buffer_size(self) -> int:
        return self._unsent.size_bytes + self._tcp.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return UNSENT_LOW_BYTES, UNSENT_HIGH_BYTES

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        assert not self._sends_eof, "nothing is written after write_eof"
        if not self.is_closing():
            self._unsent.extend(piece for piece in list_of_data if piece)
            self._send()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Send a close_notify and the end of the TCP stream behind what was written.

        What arrives from now on is discarded without being decrypted.
        """
        if not self._sends_eof and not self.is_closing():
            self._sends_eof = True
            self._rest, self._has_unread = b"", False
            self._send()

    # --- called by the TCP transport ---------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        scratch, rest = self._buffers.scratch, self._rest
        if self._sends_eof:
            return scratch
        self._room = _writable(self._protocol.get_buffer(-1))
        # No more than fits, decrypted, into the protocol's buffer, so that little is left over if that pauses then.
        wanted = min(max(len(self._room), RECORD_BYTES_MAX), self._receive_bytes)
        scratch[: len(rest)] = rest
        return scratch[len(rest) : len(rest) + wanted]

    def buffer_updated(self, nbytes: int) -> None:
        room, self._room = self._room, None
        if not self._sends_eof and not self._is_lost:
            received = self._buffers.scratch[: len(self._rest) + nbytes]
            self._decrypt(received, room)

    def eof_received(self) -> bool:
        # Also without a close_notify: a protocol with sizes knows whether its last message is whole.
        if not self._protocol.eof_received():
            self.close()
        # The TCP transport would close without sending what is not encrypted yet.
        return True

    def pause_writing(self) -> None:
        self._is_tcp_full = True

    def resume_writing(self) -> None:
        self._is_tcp_full = False
        self._answers_bytes = 0
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._rest, self._has_unread = b"", False
        self._unsent.clear()
        self._protocol.connection_lost(self._error or exc)
        # Without them both are freed at once, not by the garbage collector.
        self._failed, self._protocol = _nothing, _GONE

    # --- receiving ---------------------------------------------------------------------------------------------------

    def begin(self, rest: Buffer) -> None:
        """Read on behind `rest`, which arrived with the last record of the handshake."""
        self._rest = rest
        if self.is_reading():
            self._go_on_soon()

    def _go_on_soon(self) -> None:
        """Decrypt what has arrived in a later turn of the loop."""
        if not self._is_going_on:
            self._is_going_on = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_going_on = False
        if self._is_lost or self._is_paused or self._is_closing or self._sends_eof:
            return
        try:
            self._decrypt(memoryview(self._rest), None)
        except Exception as error:  # noqa: BLE001  As asyncio does for an error of a protocol in its own callbacks.
            self._loop.call_exception_handler(
                {"message": "Fatal error: protocol.buffer_updated() call failed.", "exception": error}
            )
            self.abort()

    def _decrypt(self, received: memoryview, room: memoryview | None) -> None:
        """Decrypt the whole records of `received` into the protocol's buffer; keep what is left."""
        try:
            begin, is_interrupted = self._take_records(received, room)
        except (NotTls, ssl.SSLError) as error:
            self._fail(failure(error))
            return
        # Closed by the protocol, or everything is taken, or a part is left.
        self._rest = b"" if self.is_closing() or self._sends_eof else bytes(received[begin:])
        self._answer()
        if self._session.has_ended:
            self._end_received()
        elif is_interrupted:
            self._pause_tcp()
            self._go_on_soon()
        elif not self._is_paused:
            self._resume_tcp()

    def _take_records(self, received: memoryview, room: memoryview | None) -> tuple[int, bool]:
        """Return how much was taken, and whether it ended only for others to have their turn."""
        session, begin, filled, records = self._session, 0, 0, 0
        while self.is_reading() and not self._sends_eof and not session.has_ended:
            if not self._has_unread:
                end = record_end(received, begin)
                if end is None or records == RECORDS_AT_ONCE_MAX:
                    self._deliver(filled)
                    self._note_sizes(begin, records)
                    return begin, end is not None
                session.feed(received[begin:end])
                begin, records, self._has_unread = end, records + 1, True
            if room is None:
                room = _writable(self._protocol.get_buffer(-1))
            count = session.read_into(room[filled:])
            filled += count
            if filled < len(room):
                self._has_unread = False
                self._note_data(count)
            else:
                self._has_unread = session.has_unread
                self._deliver(filled)
                room, filled = None, 0
        self._deliver(filled)
        return begin, False

    def _deliver(self, filled: int) -> None:
        if filled:
            self._protocol.buffer_updated(filled)

    def _note_sizes(self, taken_bytes: int, records: int) -> None:
        """Receive more at once from a connection with large records: what is received holds few of them."""
        if taken_bytes < LARGE_RECORD_BYTES * records:
            self._receive_bytes = RECEIVED_BYTES_MIN
        elif taken_bytes > self._receive_bytes // 2:
            self._receive_bytes = min(2 * self._receive_bytes, RECEIVED_BYTES_MAX)

    def _note_data(self, count: int) -> None:
        self._without_data = 0 if count else self._without_data + 1
        if self._without_data > RECORDS_WITHOUT_DATA_MAX:
            raise NotTls(f"more than {RECORDS_WITHOUT_DATA_MAX} TLS records in a row hold no data")

    def _answer(self) -> None:
        """Send what OpenSSL answers to received records, such as a key update."""
        answer = self._session.outgoing()
        if answer and not self._is_lost:
            self._answers_bytes += len(answer) if self._is_tcp_full else 0
            self._tcp.write(answer)
            if self._answers_bytes > ANSWERS_BYTES_MAX:
                self._fail("it sends key updates, and does not read the answers")

    def _end_received(self) -> None:
        if not self.is_closing() and not self._sends_eof and not self._protocol.eof_received():
            self.close()

    def _pause_tcp(self) -> None:
        if not self._is_tcp_paused:
            self._is_tcp_paused = True
            self._tcp.pause_reading()

    def _resume_tcp(self) -> None:
        if self._is_tcp_paused:
            self._is_tcp_paused = False
            self._tcp.resume_reading()

    # --- sending -----------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        """Encrypt and send, as long as the socket takes it and others need not wait for their turn."""
        unsent, left = self._unsent, SENT_AT_ONCE_BYTES
        while unsent.size_bytes and not self._is_tcp_full and left > 0 and not self._tcp.is_closing():
            piece = unsent.take()
            left -= len(piece)
            self._tcp.write(self._session.encrypt(piece))
        if not unsent.size_bytes:
            self._end_when_sent()
        elif not self._is_tcp_full and not self._is_sending_on:
            self._is_sending_on = True
            self._loop.call_soon(self._send_on)
        self._note_unsent()

    def _send_on(self) -> None:
        self._is_sending_on = False
        if not self._is_lost:
            self._send()

    def _end_when_sent(self) -> None:
        if self._tcp.is_closing() or not (self._is_closing or self._sends_eof):
            return
        if not self._is_eof_sent:
            self._is_eof_sent = True
            self._tcp.write(self._session.close_notify())
            if not self._is_closing:
                self._tcp.write_eof()
                self._is_paused = False
                self._resume_tcp()
        if self._is_closing:
            self._tcp.close()

    def _note_unsent(self) -> None:
        size = self.get_write_buffer_size()
        if not self._is_protocol_paused and size > UNSENT_HIGH_BYTES:
            self._is_protocol_paused = True
            self._protocol.pause_writing()
        elif self._is_protocol_paused and size <= UNSENT_LOW_BYTES and not self._is_lost:
            self._is_protocol_paused = False
            self._protocol.resume_writing()

    # --- the end -----------------------------------------------------------------------------------------------------

    def _fail(self, reason: str) -> None:
        """End the connection, because the other end broke the protocol; it gets the alert that says so."""
        if self._is_lost or self._error is not None:
            return
        self._error = ConnectionError(reason)
        self._failed(reason)
        self._is_closing = True
        self._unsent.clear()
        alert = self._session.outgoing()
        if alert and not self._is_eof_sent:
            self._tcp.write(alert)
        self._tcp.abort()


def _writable(room: Any) -> memoryview:
    return room if isinstance(room, memoryview) else memoryview(room)


def _nothing(_: str) -> None:
    """Nobody is there who would be told."""


_GONE: Final = asyncio.BufferedProtocol()
"""In place of the protocol of a connection that is lost."""
