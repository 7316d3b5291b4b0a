"""The memory of all connections together for requests that have not arrived whole."""

from __future__ import annotations

from typing import Final

from kraft.server.loop.budget import Beyond, Budget

SMALL_BYTES_MAX: Final = 64 * 1024
"""Requests up to this size have a budget of their own, so that they do not wait for large ones to arrive."""

SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of the one buffer that is kept for the next request: to make a new one is to clear as many bytes."""


class ReceiveMemory:
    """Two budgets: half of `socket.request.max.bytes`, beside the one request in each that may go beyond.

    That one is there twice for a moment, when it has become too large for its memory. So all requests that are partly
    there take less than twice the size that one may have. Who gets no memory stops reading.
    """

    def __init__(self, request_bytes_max: int) -> None:
        self._spare: bytearray | None = None
        self.small = Budget(request_bytes_max // 8, Beyond.FIRST)
        self.large = Budget(request_bytes_max * 3 // 8, Beyond.FIRST)

    def buffer(self, size_bytes: int) -> memoryview:
        """Of that size, with anything in it. Large requests mostly come one after the other: then it is the same."""
        spare, self._spare = self._spare, None
        if spare is None or len(spare) < size_bytes:
            spare = bytearray(size_bytes)
        return memoryview(spare)[:size_bytes]

    def reuse(self, buffer: memoryview) -> None:
        """Nobody looks into it any more."""
        made = buffer.obj
        if isinstance(made, bytearray) and SMALL_BYTES_MAX < len(made) <= SPARE_BYTES_MAX:
            self._spare = made

    def budget(self, size_bytes: int) -> Budget:
        """For a request of that size."""
        return self.small if size_bytes <= SMALL_BYTES_MAX else self.large

    @property
    def is_used_up(self) -> bool:
        return self.small.left <= 0 or self.large.left <= 0

    @property
    def held_bytes(self) -> int:
        return self.small.held + self.large.held

    def held_bytes_most(self) -> int:
        """At one time, since this was last asked for."""
        most = self.small.held_most + self.large.held_most
        self.small.held_most = self.large.held_most = 0
        return most
