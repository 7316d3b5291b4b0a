"""One end of a TLS connection, without a socket: OpenSSL between records and plaintext.

All sessions of an event loop share two memory BIOs and a buffer for received bytes. That is possible because OpenSSL
gets whole records, one at a time: it takes a record out of the BIO before it returns, and keeps a record in memory of
its own only while plaintext of it is unread. So an idle session takes no buffers, however many there are; asyncio has
256 KiB for each.
"""

from __future__ import annotations

import ssl
from typing import Final

from kraft.tls.records import RECORD_BYTES_MAX
from kraft.tls.unsent import Buffer

RECEIVED_BYTES_MAX: Final = 256 * 1024
"""The most ciphertext that one connection receives at once: decrypting it takes less than a millisecond."""


class TlsBuffers:
    """What the sessions of an event loop share. Nothing stays in it when a session returns."""

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(RECEIVED_BYTES_MAX + RECORD_BYTES_MAX))
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()


class TlsSession:
    """Raises ssl.SSLError when the other end breaks the protocol; `outgoing` then has the alert that says so."""

    def __init__(
        self, context: ssl.SSLContext, buffers: TlsBuffers, *, server_side: bool, server_hostname: str | None = None
    ) -> None:
        self._incoming, self._outgoing = buffers.incoming, buffers.outgoing
        self._ssl = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self.has_ended = False
        """The other end has sent its close_notify."""

    def shake(self, record: Buffer) -> bool:
        """Go on with the handshake by the next record, or begin it with b"". Return True once it is complete."""
        self._incoming.write(record)
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            self._drop_rest()
            raise
        return True

    def feed(self, record: Buffer) -> None:
        """Take the next record; all plaintext of the one before has to be read."""
        self._incoming.write(record)

    def read_into(self, room: memoryview) -> int:
        """Read plaintext of the record that was fed, and return its length: 0 if it holds no more."""
        try:
            count: int = self._ssl.read(len(room), room)  # type: ignore[assignment]  # Into a buffer it returns a number.
        except ssl.SSLWantReadError:
            return 0
        except ssl.SSLError:
            self._drop_rest()
            raise
        if count == 0:
            self.has_ended = True
            self._drop_rest()
        return count

    @property
    def has_unread(self) -> bool:
        return self._ssl.pending() > 0

    def encrypt(self, plaintext: Buffer) -> bytes:
        """Return records that hold all of it, behind those that were due before."""
        written = self._ssl.write(plaintext)
        assert written == len(plaintext), "memory has room for all of it"
        return self._outgoing.read()

    def outgoing(self) -> bytes:
        """Return records that have to be sent: of the handshake, alerts, and answers to key updates."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def close_notify(self) -> bytes:
        """Return the record that says that nothing more is sent."""
        try:
            self._ssl.unwrap()
        except ssl.SSLError:
            # It would wait for that of the other end, or cannot be sent any more. What is there to send is sent.
            self._drop_rest()
        return self._outgoing.read()

    def peer_certificate(self) -> bytes | None:
        """Return the certificate of the other end, in DER; None if it showed none."""
        return self._ssl.getpeercert(binary_form=True)

    @property
    def ssl_object(self) -> ssl.SSLObject:
        return self._ssl

    def _drop_rest(self) -> None:
        """Leave nothing to the next session."""
        self._incoming.read()
