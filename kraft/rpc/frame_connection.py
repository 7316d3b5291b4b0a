"""Frames over a TCP connection, the same at both ends: each is its size in four bytes, and its content.

Small frames are received into one buffer of the connection's own and copied out of it; the rest of a frame that is not
complete there is received straight into memory of its own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from kraft.log.format.record_batch import Buffer
from kraft.model.callbacks import Callback, OnFailure

SIZE_BYTES: Final = 4
SCRATCH_BYTES: Final = 64 * 1024

JOINED_BYTES_MAX: Final = 128 * 1024
"""A frame up to this size is copied into one piece: another system call, here and at the other end, costs more."""

KEEPALIVE_IDLE_S: Final = 10
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_COUNT_MAX: Final = 3
UNACKNOWLEDGED_MS_MAX: Final = 25_000
"""A peer that vanished silently is noticed after 25 s, whether data is on the way to it or not."""


TakeOver = Callable[[asyncio.Transport], None]
"""Takes over a connection, for another protocol."""


class FrameConnection(asyncio.BufferedProtocol):
    """One end of a connection. `ended` is called once, with the reason in one line."""

    def __init__(
        self,
        *,
        frame_bytes_max: int,
        received: Callable[[Buffer], None],
        ended: OnFailure,
        may_write: Callback,
        unreadable: OnFailure | None = None,
    ) -> None:
        """`may_write` is called when the other end has read what filled the connection before.

        `unreadable` is called with the reason when nothing more can be received, and has to end the connection. Without
        it the connection ends at once.
        """
        self._frame_bytes_max = frame_bytes_max
        self._received = received
        self._ended = ended
        self._may_write = may_write
        self._unreadable = unreadable or self.abort
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._filled = 0
        """Bytes in `_scratch`, or in `_frame` if there is one."""
        self._frame: memoryview | None = None
        """A frame that is not complete."""
        self.is_over = False
        self.is_full = False
        """The other end does not read fast enough: nothing should be sent before `may_write` is called."""
        self._transport: asyncio.Transport

    # --- called by asyncio ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a TCP connection has both directions"
        self._transport = transport
        set_keepalive(transport.get_extra_info("socket"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return (self._scratch if self._frame is None else self._frame)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_over:
            self._filled = 0
            return
        self._filled += nbytes
        if self._frame is None:
            self._take_frames()
        elif self._filled == len(self._frame):
            frame, self._frame, self._filled = self._frame, None, 0
            self._received(frame)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._may_write()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc is not None else "the other end closed the connection")

    # --- called by its owner -------------------------------------------------------------------------------------

    def send(self, pieces: list[Buffer]) -> None:
        """Send a frame of these pieces. Does nothing after the end."""
        if self.is_over:
            return
        size = sum(map(len, pieces))
        head = size.to_bytes(SIZE_BYTES, "big")
        if size <= JOINED_BYTES_MAX:
            self._transport.write(b"".join([head, *pieces]))
            return
        small: list[Buffer] = [head]
        for piece in pieces:
            if len(piece) <= JOINED_BYTES_MAX:
                small.append(piece)
                continue
            self._transport.write(b"".join(small))
            self._transport.write(piece)
            small = []
        self._transport.write(b"".join(small))

    def pause_reading(self) -> None:
        if not self.is_over:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_over:
            self._transport.resume_reading()

    def abort(self, reason: str) -> None:
        """Close at once and drop what was not sent."""
        if not self.is_over:
            self._end(reason)
            self._transport.abort()

    def close(self, reason: str) -> None:
        """Close when everything is sent."""
        if not self.is_over:
            self._end(reason)
            self._transport.close()

    def _take_frames(self) -> None:
        begin, scratch = 0, self._scratch
        while self._filled - begin >= SIZE_BYTES:
            size = int.from_bytes(scratch[begin : begin + SIZE_BYTES], "big")
            if size > self._frame_bytes_max:
                self._filled = 0
                self._unreadable(f"a frame of {size} bytes is larger than {self._frame_bytes_max}")
                return
            begin += SIZE_BYTES
            end = begin + size
            if end > self._filled:
                frame = memoryview(bytearray(size))
                self._filled -= begin
                frame[: self._filled] = scratch[begin : begin + self._filled]
                self._frame = frame
                return
            self._received(bytes(scratch[begin:end]))
            if self.is_over:
                return
            begin = end
        rest = bytes(scratch[begin : self._filled])
        scratch[: len(rest)] = rest
        self._filled = len(rest)

    def _end(self, reason: str) -> None:
        if not self.is_over:
            self.is_over = True
            self._frame = None
            self._filled = 0
            self._ended(reason)


def set_keepalive(connection: socket.socket | None) -> None:
    """Let the kernel notice a peer that is gone without a word."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_COUNT_MAX),
        ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS_MAX),
    ):
        # Not every system has them.
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
