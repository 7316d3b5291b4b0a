"""The bytes of one connection, cut into frames without being copied where that can be had.

All connections receive into one scratch buffer, since each one's frames are taken out before the next one reads. Only
what is left over, the beginning of a frame, is kept in memory of the connection's own. So a quiet connection holds
nothing, and ten thousand of them hold no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.server.kafka_listener.receive_budget import ReceiveBudget

SIZE_BYTES: Final = 4
"""In front of each frame: how many bytes follow, as a signed integer."""

FRAME_BYTES_MIN: Final = 8
"""An API key, its version and a correlation id are the least that any request has."""

KEPT_BYTES_MIN: Final = 1_024

TRUST_FACTOR: Final = 4
"""A frame gets at most so many times the room that its sender has filled: a size is only a claim."""


class BadFrame(Exception):
    """A size that no request has: these bytes are not Kafka's protocol, or the request is larger than allowed."""


class ReceiveBuffer:
    def __init__(
        self, scratch: memoryview, frame_bytes_max: int, budget: ReceiveBudget, ask_again: Callable[[], None]
    ) -> None:
        """`ask_again` is called when the budget may have room, after `has_room` was False."""
        self._scratch = scratch
        self._frame_bytes_max = frame_bytes_max
        self._budget = budget
        self._ask_again = ask_again
        self._kept: memoryview | None = None
        self._filled = 0
        """So much of `_kept` has been received."""
        self._view = scratch[:0]
        self._position = 0

    @property
    def is_partial(self) -> bool:
        """The beginning of a frame is here, and its end is not. Raises BadFrame."""
        return self._position < len(self._view) and self.peek_frame() is None

    def room(self) -> memoryview:
        """Where to receive the next bytes. Never empty after `has_room` was True."""
        if self._kept is not None:
            return self._kept[self._filled :]
        return self._scratch[:KEPT_BYTES_MIN] if self._budget.is_used_up else self._scratch

    def received(self, count: int) -> None:
        """So many bytes now stand at the beginning of `room()`. Ends with `keep_rest` before anybody else receives."""
        if self._kept is None:
            self._view = self._scratch[:count]
        else:
            self._filled += count
            self._view = self._kept[: self._filled]

    def peek_frame(self) -> memoryview | None:
        """The next whole frame, without its size; valid until more is received. Raises BadFrame."""
        size = self._next_size()
        if size is None:
            return None
        begin = self._position + SIZE_BYTES
        if len(self._view) - begin < size:
            return None
        return self._view[begin : begin + size]

    def next_frame(self) -> memoryview | None:
        """As `peek_frame`, and takes it away."""
        frame = self.peek_frame()
        if frame is not None:
            self._position += SIZE_BYTES + len(frame)
        return frame

    def keep_rest(self) -> None:
        """Puts what was not taken where it can stay: the scratch buffer is the next connection's."""
        if self._position == len(self._view):
            self.clear()
        elif self._kept is None:
            self._keep_only_rest()

    def has_room(self) -> bool:
        """Makes room for more of a frame that has begun. Raises BadFrame.

        False: the memory is lent to others at present, or a whole frame is here and waits for its turn.
        """
        if self._kept is None:
            return True
        size, left = self._next_size(), self._filled - self._position
        wanted = KEPT_BYTES_MIN if size is None else SIZE_BYTES + size
        if wanted <= left:
            return False
        if self._filled < len(self._kept):
            return True
        if self._position:
            self._keep_only_rest()
        size_bytes = min(wanted, max(TRUST_FACTOR * left, KEPT_BYTES_MIN))
        if not self._budget.grow_to(self, size_bytes, self._ask_again):
            return False
        self._move_to(size_bytes)
        return True

    def clear(self) -> None:
        """Forgets everything, and gives the memory back."""
        if self._kept is not None:
            self._kept = None
            self._budget.give_back(self)
        self._view, self._position, self._filled = self._scratch[:0], 0, 0

    def _keep_only_rest(self) -> None:
        size_bytes = len(self._view) - self._position
        self._budget.keep(self, size_bytes)
        self._move_to(size_bytes)

    def _move_to(self, size_bytes: int) -> None:
        """What was not taken, into a buffer of its own."""
        rest = self._view[self._position :]
        kept = memoryview(bytearray(size_bytes))
        self._filled, self._position = len(rest), 0
        kept[: self._filled] = rest
        self._kept, self._view = kept, kept[: self._filled]

    def _next_size(self) -> int | None:
        """Of the frame that begins at the position; None while its size has not arrived. Raises BadFrame."""
        if len(self._view) - self._position < SIZE_BYTES:
            return None
        size = int.from_bytes(self._view[self._position : self._position + SIZE_BYTES], "big", signed=True)
        if not FRAME_BYTES_MIN <= size <= self._frame_bytes_max:
            raise BadFrame(
                f"a request of {size} bytes; between {FRAME_BYTES_MIN} and "
                f"socket.request.max.bytes={self._frame_bytes_max} are taken"
            )
        return size
