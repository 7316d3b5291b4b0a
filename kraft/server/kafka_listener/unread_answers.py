"""How much of what was answered still waits here for clients to read it, and so how much more may be answered."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Final

from kraft.server.loop.budget import Budget

ANSWER_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of records in one answer, however much a client asks for: on its way out, an answer is copied twice."""

SMALL_ANSWER_BYTES: Final = 16 * 1024
"""Goes out however little room there is. The kernel takes more than that from a client that reads."""

UNREAD_SHARE: Final = 4
"""Of `socket.request.max.bytes`, this part may be unread, in all answers together. Each is there twice while it
is written, and the buffers of many that come and go leave gaps of their size.
"""


class UnreadAnswers:
    """A client that does not read is given little; when there are many, those that read nothing at all have to go."""

    def __init__(self, bytes_max: int) -> None:
        self.budget = Budget(bytes_max)
        """Held by connections, and by answers on their way to one."""

    def note(self, reader: Hashable, size_bytes: int) -> None:
        """So much is unread by it now."""
        if size_bytes:
            self.budget.hold(reader, size_bytes)
        else:
            self.budget.release(reader)

    def made(self, size_bytes: int) -> None:
        """An answer with so many bytes of records is on its way to a connection, and counts until it has got there.

        That is in the next turn of the loop, so that clients who do read are not held up by what they have read.
        """
        if not size_bytes:
            return
        answer = object()
        self.budget.hold(answer, size_bytes)
        asyncio.get_running_loop().call_later(0, self.budget.release, answer)

    @property
    def is_crowded(self) -> bool:
        """There is no room left: who does not read holds up those who do."""
        return self.budget.left <= 0

    def room_bytes(self) -> int:
        """So many bytes of records the next answer may have. With 0, it is to be a small one."""
        return max(0, min(ANSWER_BYTES_MAX, self.budget.left))

    def takes(self, size_bytes: int) -> bool:
        """Whether an answer with so many bytes of records may be made.

        The last one that finds room may take more than there is: a batch is given as a whole or not at all (KIP-74).
        """
        return size_bytes <= SMALL_ANSWER_BYTES or self.budget.left > 0

    async def room(self, deadline_s: float) -> bool:
        """Waits until there is some, by the loop's clock, in the order of coming. False: the time is over."""
        answer = object()
        has_room = await self.budget.wait(answer, 1, deadline_s)
        # How much is taken is known when it is read.
        self.budget.release(answer)
        return has_room
