"""Writes responses to a transport: a very large one in parts, of which each follows when the client has read the last.

The transport copies what it cannot send at once, and all of it in the same turn of the loop: 60 MiB take 60 ms.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

ResponseBytes = list[bytes | bytearray | memoryview]
"""The bytes of a response, starting with its size; empty when the client gets no response."""

WRITTEN_ALONE_BYTES_MIN: Final = 32 * 1024
"""Copying a piece of this size costs more than another system call."""

PART_BYTES_MAX: Final = 4 * 1024 * 1024
"""A piece above this size is written in parts. Larger than what a fetch usually returns."""


class ResponseWriter:
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._parts: deque[memoryview] = deque()
        self.written_bytes = 0
        """Bytes of all responses, also those that were not sent yet."""

    @property
    def has_parts(self) -> bool:
        """True if something is left for `write_part`."""
        return bool(self._parts)

    @property
    def unread_bytes(self) -> int:
        """Bytes that were not sent yet."""
        return self._transport.get_write_buffer_size() + sum(map(len, self._parts))

    def write(self, pieces: ResponseBytes) -> None:
        """Write small pieces together in one system call, and large ones without a copy; leave a very large one, and
        what follows it, to `write_part`.
        """
        if self._transport.is_closing():
            # Lost in this turn of the loop: asyncio would log each response that a client left behind.
            return
        if self._parts:
            self._leave(pieces)
            return
        if len(pieces) == 1 and (size_bytes := len(pieces[0])) < WRITTEN_ALONE_BYTES_MIN:
            self.written_bytes += size_bytes
            self._transport.write(pieces[0])
            return
        together: ResponseBytes = []
        for number, piece in enumerate(pieces):
            size_bytes = len(piece)
            if size_bytes < WRITTEN_ALONE_BYTES_MIN:
                self.written_bytes += size_bytes
                together.append(piece)
                continue
            if together:
                self._transport.writelines(together)
                together = []
            if size_bytes > PART_BYTES_MAX:
                self._leave(pieces[number:])
                return
            self.written_bytes += size_bytes
            self._transport.write(piece)
        if together:
            self._transport.writelines(together)

    def write_part(self) -> bool:
        """Write the next part. Return False if there is none."""
        if not self._parts:
            return False
        self._transport.write(self._parts.popleft())
        return True

    def drop(self) -> None:
        """Drop what is not written: the connection is lost."""
        self._parts.clear()

    def _leave(self, pieces: ResponseBytes) -> None:
        for piece in pieces:
            view = memoryview(piece)
            self.written_bytes += len(view)
            self._parts.extend(view[start : start + PART_BYTES_MAX] for start in range(0, len(view), PART_BYTES_MAX))
