"""How much of what was answered still waits here for clients to read it, and so how much more may be answered."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of records in one answer, however much a client asks for: on its way out, an answer is copied twice."""


class Reader(Protocol):
    """A connection that answers are written to. Compared by identity."""


class UnreadAnswers:
    """A client that does not read is given little; when there are many, those that read nothing at all have to go."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._unread: dict[Reader, int] = {}
        self._total = 0

    def note(self, reader: Reader, size_bytes: int) -> None:
        """So much is unread by it now."""
        self._total += size_bytes - self._unread.pop(reader, 0)
        if size_bytes:
            self._unread[reader] = size_bytes

    def made(self, size_bytes: int) -> None:
        """An answer with so many bytes of records is on its way to a connection, and counts until it has got there.

        That is in the next turn of the loop, so that clients who do read are not held up by what they have read.
        """
        if not size_bytes:
            return
        answer = object()
        self.note(answer, size_bytes)
        asyncio.get_running_loop().call_later(0, self.note, answer, 0)

    @property
    def total_bytes(self) -> int:
        return self._total

    @property
    def is_crowded(self) -> bool:
        """There is no room left: who does not read holds up those who do."""
        return self._total > self._bytes_max

    def room_bytes(self) -> int:
        """So many bytes of records the next answer may have. With 0, it has one batch at most."""
        return max(0, min(ANSWER_BYTES_MAX, self._bytes_max - self._total))
