"""How much of what was answered still waits here for clients to read it, and so how much more may be answered."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

ANSWER_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of records in one answer, however much a client asks for: on its way out, an answer is copied twice."""

SMALL_ANSWER_BYTES: Final = 16 * 1024
"""Goes out however little room there is. The kernel takes more than that from a client that reads."""


def unread_bytes_max(request_bytes_max: int) -> int:
    """Of all answers together: a quarter of `socket.request.max.bytes`.

    Each is there twice while it is written, and the buffers of many that come and go leave gaps of their size.
    """
    return request_bytes_max // 4


class Reader(Protocol):
    """A connection that answers are written to. Compared by identity."""


class UnreadAnswers:
    """A client that does not read is given little; when there are many, those that read nothing at all have to go."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._unread: dict[Reader, int] = {}
        self._total = 0
        self._waiting = 0
        self._freed = asyncio.Event()

    def note(self, reader: Reader, size_bytes: int) -> None:
        """So much is unread by it now."""
        self._total += size_bytes - self._unread.pop(reader, 0)
        if size_bytes:
            self._unread[reader] = size_bytes
        if self._waiting and self._total < self._bytes_max:
            # All of them, in the order in which they came; who finds the room taken waits again, in the same order.
            self._freed.set()
            self._freed.clear()

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
        return self._total >= self._bytes_max

    def room_bytes(self) -> int:
        """So many bytes of records the next answer may have. With 0, it is to be a small one."""
        return max(0, min(ANSWER_BYTES_MAX, self._bytes_max - self._total))

    def takes(self, size_bytes: int) -> bool:
        """Whether an answer with so many bytes of records may be made.

        The last one that finds room may take more than there is: a batch is given as a whole or not at all (KIP-74).
        """
        return size_bytes <= SMALL_ANSWER_BYTES or self._total < self._bytes_max

    async def room(self, deadline_s: float) -> bool:
        """Waits until there is some, by the loop's clock. False: the time is over."""
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline_s):
                while self._total >= self._bytes_max:
                    await self._freed.wait()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True
