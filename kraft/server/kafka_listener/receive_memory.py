"""Memory of all connections for requests that have arrived in part."""

from __future__ import annotations

from typing import Final

from kraft.server.loop.budget import BeyondBudget, Budget

SMALL_BYTES_MAX: Final = 64 * 1024
"""Requests up to this size have their own budget, so that they do not wait for large ones to arrive."""

SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Maximum size of the one buffer that is kept for the next request: allocating a new one zeroes all its bytes."""


class ReceiveMemory:
    """Two budgets: together half of `socket.request.max.bytes`, plus one request in each that may exceed it.

    That one is in memory twice for a moment while it moves to a larger buffer. So all partly received requests together
    take less than twice the maximum size of one. A connection that gets no memory stops reading.
    """

    def __init__(self, request_bytes_max: int) -> None:
        self._spare: bytearray | None = None
        self.small = Budget(request_bytes_max // 8, BeyondBudget.FIRST)
        self.large = Budget(request_bytes_max * 3 // 8, BeyondBudget.FIRST)

    def buffer(self, size_bytes: int) -> memoryview:
        """Return a buffer of that size, not cleared. Large requests mostly come one by one and share the spare one."""
        spare, self._spare = self._spare, None
        if spare is None or len(spare) < size_bytes:
            spare = bytearray(size_bytes)
        return memoryview(spare)[:size_bytes]

    def reuse(self, buffer: memoryview) -> None:
        """Take back a buffer that is no longer used."""
        made = buffer.obj
        if isinstance(made, bytearray) and SMALL_BYTES_MAX < len(made) <= SPARE_BYTES_MAX:
            self._spare = made

    def budget(self, size_bytes: int) -> Budget:
        """Return the budget for a request of that size."""
        return self.small if size_bytes <= SMALL_BYTES_MAX else self.large

    @property
    def is_used_up(self) -> bool:
        small, large = self.small, self.large
        return small.held >= small.size_max or large.held >= large.size_max

    @property
    def held_bytes(self) -> int:
        return self.small.held + self.large.held

    def take_held_most(self) -> int:
        """Return the most bytes held at one time since the last call."""
        most = self.small.held_most + self.large.held_most
        self.small.held_most = self.large.held_most = 0
        return most
