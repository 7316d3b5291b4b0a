"""Budget of responses that clients have not read yet; it limits how many bytes the next response may have."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Final

from kraft.server.loop.budget import Budget

RESPONSE_RECORD_BYTES_MAX: Final = 2 * 1024 * 1024
"""Maximum bytes of records in one response, whatever the client asks for: sending copies a response twice."""

SMALL_RESPONSE_BYTES: Final = 16 * 1024
"""A response up to this size is always sent: the kernel buffers more than that for a client that reads."""

UNREAD_SHARE: Final = 4
"""All unread responses together take at most `socket.request.max.bytes` / 4. Each is in memory twice while it is
written, and many buffers that come and go leave gaps of their size.
"""


class UnreadResponses:
    """Limits responses to clients that do not read; if there are many, those that read nothing are disconnected."""

    def __init__(self, bytes_max: int) -> None:
        self.budget = Budget(bytes_max)
        """Held by connections, and by responses on their way to one."""

    def note(self, reader: Hashable, size_bytes: int) -> None:
        """Set how many bytes `reader` has not read."""
        if size_bytes:
            self.budget.hold(reader, size_bytes)
        else:
            self.budget.release(reader)

    def made(self, size_bytes: int) -> None:
        """Count a response with `size_bytes` of records until it reaches its connection.

        That is in the next turn of the event loop, so that clients that read are not delayed by their own responses.
        """
        if not size_bytes:
            return
        response = object()
        self.budget.hold(response, size_bytes)
        asyncio.get_running_loop().call_soon(self.budget.release, response)

    @property
    def is_crowded(self) -> bool:
        """True if no room is left: clients that do not read delay those that do."""
        return self.budget.left <= 0

    def room_bytes(self) -> int:
        """Return how many bytes of records the next response may have. 0: only a small one."""
        return max(0, min(RESPONSE_RECORD_BYTES_MAX, self.budget.left))

    def takes(self, size_bytes: int) -> bool:
        """Return whether a response with `size_bytes` of records may be made.

        The last one that finds room may take more than is left: a batch is sent whole or not at all (KIP-74).
        """
        return size_bytes <= SMALL_RESPONSE_BYTES or self.budget.left > 0

    async def room(self, deadline_s: float) -> bool:
        """Wait for room until `deadline_s` of the loop's clock, first come, first served. False: timed out."""
        waiter = object()
        has_room = await self.budget.wait(waiter, 1, deadline_s)
        # The size of the response is known only after the read.
        self.budget.release(waiter)
        return has_room
