"""The bytes of one connection, cut into frames without being copied where that can be had.

All connections receive into one scratch buffer, since each one's frames are taken out before the next one reads. Only
what is left over, the beginning of a frame, is kept in memory of the connection's own. So a quiet connection holds
nothing, and ten thousand of them hold no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.server.kafka_listener.large_requests import LARGE_FROM_BYTES, PRODUCE_KEY, LargeRequests
from kraft.server.kafka_listener.receive_memory import ReceiveMemory
from kraft.server.loop.budget import Budget

SIZE_BYTES: Final = 4
"""In front of each frame: how many bytes follow, as a signed integer."""

FRAME_BYTES_MIN: Final = 8
"""An API key, its version and a correlation id are the least that any request has."""

KEPT_BYTES_MIN: Final = 1_024

ARRIVED_BYTES_MIN: Final = 16 * 1024
"""So much of a request arrives in a second, or it is slow; it has to go when others wait for its memory."""

SLOW_CHECKS_MAX: Final = 2

TRUST_FACTOR: Final = 4
"""A frame gets so many times the room that its sender has filled: a size is only a claim. When the next step would be
the last, it is taken at once: at each step the frame is there twice, and so it is in all of its room and a quarter.
"""


class BadFrame(Exception):
    """A size that no request has: these bytes are not Kafka's protocol, or the request is larger than allowed."""


class ReceiveBuffer:
    def __init__(
        self,
        scratch: memoryview,
        frame_bytes_max: int,
        memory: ReceiveMemory,
        large: LargeRequests,
        granted: Callable[[], None],
    ) -> None:
        """`granted` is called when there is memory, after `has_room` was False, and when it is the turn of the frame
        that `next_frame` kept back.
        """
        self._scratch = scratch
        self._frame_bytes_max = frame_bytes_max
        self._memory = memory
        self._budget: Budget = memory.small
        """That the memory of `_kept` is held in."""

        self._large = large
        self._granted = granted
        self.has_turn = False
        """A large frame was taken: `finished` is to be called when it is answered."""

        self._arrived_bytes = 0
        self._slow_checks = 0
        self._kept: memoryview | None = None
        self._filled = 0
        """So much of `_kept` has been received."""
        self._whole_at = 0
        """So much of `_kept` has to be received until the frame in there is whole; 0 while that is not known."""

        self._view = scratch[:0]
        self._position = 0

    @property
    def is_partial(self) -> bool:
        """The beginning of a frame is here, and its end is not. Raises BadFrame."""
        return self._position < len(self._view) and self.peek_frame() is None

    @property
    def is_waiting(self) -> bool:
        """For memory, that others have."""
        return self._budget.is_waiting(self)

    def room(self) -> memoryview:
        """Where to receive the next bytes. Never empty after `has_room` was True."""
        if self._kept is not None:
            return self._kept[self._filled :]
        return self._scratch[:KEPT_BYTES_MIN] if self._memory.is_used_up else self._scratch

    def received(self, count: int) -> bool:
        """So many bytes now stand at the beginning of `room()`.

        False: nothing is to be done but to receive more, since a large frame comes in many parts. Otherwise ends with
        `keep_rest` before anybody else receives.
        """
        if self._kept is None:
            self._view = self._scratch[:count]
            return True
        self._filled += count
        self._arrived_bytes += count
        if self._filled < self._whole_at and self._filled < len(self._kept):
            return False
        self._view = self._kept[: self._filled]
        return True

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
        """As `peek_frame`, and takes it away. None also for a large one whose turn it is not yet: see LargeRequests."""
        frame = self.peek_frame()
        if frame is None:
            return None
        if len(frame) > LARGE_FROM_BYTES and frame[1] != PRODUCE_KEY and not self._take_turn(frame):
            return None
        self._position += SIZE_BYTES + len(frame)
        return frame

    def finished(self) -> None:
        """What was taken is answered, or will not be: others have their turn."""
        self.has_turn = False
        self._large.end(self)

    def keep_rest(self) -> None:
        """Puts what was not taken where it can stay: the scratch buffer is the next connection's."""
        if self._position == len(self._view):
            self.clear()
        elif self._kept is None:
            self._keep_only_rest()

    def has_room(self) -> bool:
        """Makes room for more of a frame that has begun. Raises BadFrame.

        False: others hold the memory at present, or a whole frame is here and waits for its turn.
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
        size_bytes = max(TRUST_FACTOR * left, KEPT_BYTES_MIN)
        if TRUST_FACTOR * size_bytes >= wanted:
            size_bytes = wanted
        self._hold_in(self._memory.budget(wanted), left)
        if not self._budget.claim(self, size_bytes, self._granted):
            return False
        self._move_to(size_bytes)
        self._whole_at = 0 if size is None else wanted
        return True

    def is_slow(self) -> bool:
        """To be asked once a second: others wait for memory, and of what this one has its request makes little use."""
        arrived_bytes, self._arrived_bytes = self._arrived_bytes, 0
        is_lazy = (
            not self.is_waiting
            and self._filled > KEPT_BYTES_MIN
            and arrived_bytes < ARRIVED_BYTES_MIN
            and self._budget.waiting_count > 0
        )
        self._slow_checks = self._slow_checks + 1 if is_lazy else 0
        return self._slow_checks >= SLOW_CHECKS_MAX

    def clear(self) -> None:
        """Forgets everything, and gives the memory back."""
        if self._kept is not None:
            self._memory.reuse(self._kept)
            self._kept = None
            self._slow_checks = 0
            self._budget.release(self)
        self._view, self._position, self._filled, self._whole_at = self._scratch[:0], 0, 0, 0

    def _take_turn(self, frame: memoryview) -> bool:
        if self.has_turn:
            # Whoever takes the next one has answered the one before.
            self.finished()
        self.has_turn = self._large.begin(self, frame, self._granted)
        return self.has_turn

    def _keep_only_rest(self) -> None:
        size_bytes = len(self._view) - self._position
        self._hold_in(self._memory.budget(max(size_bytes, self._next_size() or 0)), size_bytes)
        self._move_to(size_bytes)

    def _hold_in(self, budget: Budget, size_bytes: int) -> None:
        """So much, if it was not there already."""
        if budget is not self._budget:
            self._budget.release(self)
        elif self._kept is not None and size_bytes >= len(self._kept):
            return
        self._budget = budget
        budget.hold(self, size_bytes)

    def _move_to(self, size_bytes: int) -> None:
        """What was not taken, into a buffer of its own."""
        rest = self._view[self._position :]
        kept = self._memory.buffer(size_bytes)
        self._filled, self._position, self._whole_at = len(rest), 0, 0
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
