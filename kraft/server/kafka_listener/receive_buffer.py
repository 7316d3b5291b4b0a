"""Receive buffer of one connection: cuts bytes into frames, without copying where possible.

All connections receive into one scratch buffer, since the frames of one are taken out before the next one reads. Only
the rest, the beginning of a frame, is kept in memory of the connection's own. So idle connections hold no memory,
however many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from kraft.server.kafka_listener.large_requests import LARGE_FROM_BYTES, WITHOUT_TURNS, LargeRequests
from kraft.server.kafka_listener.receive_memory import SMALL_BYTES_MAX, ReceiveMemory
from kraft.server.loop.budget import Budget

SIZE_BYTES: Final = 4
"""Length of the signed integer before each frame that says how many bytes follow."""

_SIZE: Final = Struct(">i")

FRAME_BYTES_MIN: Final = 8
"""Every request has at least an API key, a version and a correlation id."""

KEPT_BYTES_MIN: Final = 1_024

ROOM_BYTES_MIN: Final = 256 * 1024
"""Bytes that a connection receives at once, at first. Each time they are all there and every complete request among
them is begun, it doubles, up to the whole scratch buffer: fewer turns of the loop for the same requests. Where one
stays behind it is this again, since what stays is kept.
"""

ROOM_PART: Final = 3
"""What is above that is at most this part of the memory left for large requests: all of it may stay behind."""

ARRIVED_BYTES_MIN: Final = 16 * 1024
"""A request is slow if less than this arrives in a second; its connection closes if others wait for its memory."""

SLOW_CHECKS_MAX: Final = 2

TRUST_FACTOR: Final = 4
"""A frame gets this many times the room that its sender has filled, since its size is only a claim. If the step
after this one would hold the whole frame, its full size is allocated now. Each step copies what has arrived, so a frame
takes at most 1.25 times its size.
"""

JOINED_BYTES_MAX: Final = SMALL_BYTES_MAX
"""A frame up to this size whose rest waits in the socket is received with those after it: its beginning is copied back
into the scratch buffer. Larger ones get memory of their own, so that less is copied.
"""


_OTHER_PROTOCOLS: Final = {
    b"PRI ": "the client speaks gRPC: it needs the address of a GRPC listener",
    b"GET ": "the client speaks HTTP, which this listener does not serve",
    b"POST": "the client speaks HTTP, which this listener does not serve",
    b"\x16\x03": "the client speaks TLS, which this listener does not serve",
}
"""First bytes that look like a size, and what they show."""


class BadFrame(Exception):
    """Invalid frame size: the bytes are not Kafka's protocol, or the request is larger than allowed."""


class ReceiveBuffer:
    def __init__(
        self,
        scratch: memoryview,
        frame_bytes_max: int,
        memory: ReceiveMemory,
        large: LargeRequests,
        granted: Callable[[], None],
    ) -> None:
        """Set up an empty buffer.

        `granted` is called when memory is free after `make_room` was False, and when a large frame that `next_frame`
        did not return has its turn.
        """
        self._scratch = scratch
        self._frame_bytes_max = frame_bytes_max
        self._memory = memory
        self._budget: Budget = memory.small
        """Budget that counts the memory of `_kept`."""

        self._large = large
        self._granted = granted
        self.has_turn = False
        """A large frame was taken: call `finished` when it is answered."""

        self._arrived_bytes = 0
        self._slow_checks = 0
        self._first_room_bytes = min(ROOM_BYTES_MIN, len(scratch))
        self._room_bytes = self._first_room_bytes
        self._room_end = 0
        """End of the last room in the scratch buffer."""
        self._more_waits = False
        """The last bytes received filled the room, so the socket is likely to have more."""
        self._kept: memoryview | None = None
        self._filled = 0
        """Number of bytes of `_kept` that have been received."""
        self._whole_at = 0
        """Number of bytes of `_kept` at which its frame is complete; 0 while not known."""

        self._none = scratch[:0]
        self._view = self._none
        self._position = 0
        self.is_empty = True
        """Every byte was taken."""

    @property
    def is_partial(self) -> bool:
        """True if the beginning of a frame has arrived and its end has not. Raises BadFrame."""
        return not self.is_empty and self.peek_frame() is None

    @property
    def is_waiting(self) -> bool:
        """True if the buffer waits for memory that other connections hold."""
        return self._budget.is_waiting(self)

    def room(self) -> memoryview:
        """Return where to receive the next bytes. Never empty after `make_room` was True."""
        begin = 0
        if self._kept is not None:
            if self._filled < len(self._kept):
                return self._kept[self._filled :]
            begin = self._filled
            self._scratch[:begin] = self._kept
        memory = self._memory
        fair_bytes = max(memory.large.left // ROOM_PART, self._first_room_bytes)
        self._room_end = begin + KEPT_BYTES_MIN if memory.is_used_up else min(self._room_bytes, fair_bytes)
        return self._scratch[begin : self._room_end]

    def received(self, count: int) -> bool:
        """Count `count` bytes received at the beginning of `room()`.

        Return False if a large frame is still incomplete and more must be received, True if there may be a frame to
        take; `keep_rest` must then be called before another connection receives.
        """
        if self._kept is None or self._filled == len(self._kept):
            end = self._filled + count
            if self._kept is not None:
                self.clear()
            self._view = self._scratch[:end]
            self._more_waits = end == self._room_end >= self._first_room_bytes
            self.is_empty = False
            return True
        self.is_empty = False
        self._more_waits = False
        self._filled += count
        self._arrived_bytes += count
        if self._filled < self._whole_at and self._filled < len(self._kept):
            return False
        self._view = self._kept[: self._filled]
        return True

    def peek_frame(self) -> memoryview | None:
        """Return the next complete frame, without its size; valid until more is received. Raises BadFrame."""
        size = self._next_size()
        if size is None:
            return None
        begin = self._position + SIZE_BYTES
        if len(self._view) - begin < size:
            return None
        return self._view[begin : begin + size]

    def next_frame(self) -> memoryview | None:
        """Return the next frame as `peek_frame` does, and remove it.

        None also for a large frame whose turn has not come yet: see LargeRequests.
        """
        if self.is_empty or (frame := self.peek_frame()) is None:
            return None
        if self.has_turn:
            # The connection takes the next frame only after it answered the one before.
            self.finished()
        size = len(frame)
        if size > LARGE_FROM_BYTES and frame[1] not in WITHOUT_TURNS and not self._take_turn(frame):
            return None
        self._position += SIZE_BYTES + size
        self.is_empty = self._position == len(self._view)
        return frame

    def finished(self) -> None:
        """End the turn of the large frame that was taken: it is answered, or will not be."""
        self.has_turn = False
        self._large.end(self)

    def keep_rest(self) -> None:
        """Move the bytes not taken out of the scratch buffer, which the next connection uses."""
        if self._kept is None:
            self._resize_room()
        if self.is_empty:
            self.clear()
        elif self._kept is None:
            self._keep_only_rest()

    def make_room(self) -> bool:
        """Make room for more of an incomplete frame. Raises BadFrame.

        False: other connections hold the memory at present, or a complete frame waits here for its turn.
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
        if self._may_join(wanted):
            return True
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
        """Return whether this request arrives too slowly while others wait for its memory. Call once a second."""
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
        """Drop all bytes and release the memory."""
        if self._kept is not None:
            self._memory.reuse(self._kept)
            self._kept = None
            self._slow_checks = 0
            self._budget.release(self)
        self._view, self._position, self._filled, self._whole_at = self._none, 0, 0, 0
        self._more_waits = False
        self.is_empty = True

    def close(self) -> None:
        """Drop all bytes, and the reference to the connection."""
        self.clear()
        self._granted = lambda: None

    def _resize_room(self) -> None:
        if not self.is_empty and self.peek_frame() is not None:
            self._room_bytes = self._first_room_bytes
        elif self._more_waits:
            self._room_bytes = min(2 * self._room_bytes, len(self._scratch))

    def _may_join(self, frame_bytes: int) -> bool:
        """Return whether the rest of a frame is to be received into the scratch buffer, behind its beginning."""
        memory = self._memory
        return (
            self._more_waits
            and frame_bytes <= min(JOINED_BYTES_MAX, self._room_bytes // 2)
            and not memory.is_used_up
            and not memory.small.waiting_count
        )

    def _take_turn(self, frame: memoryview) -> bool:
        self.has_turn = self._large.begin(self, frame, self._granted)
        return self.has_turn

    def _keep_only_rest(self) -> None:
        size_bytes = len(self._view) - self._position
        self._hold_in(self._memory.budget(max(size_bytes, self._next_size() or 0)), size_bytes)
        self._move_to(size_bytes)

    def _hold_in(self, budget: Budget, size_bytes: int) -> None:
        """Hold `size_bytes` in `budget`, unless that much is held already."""
        if budget is not self._budget:
            self._budget.release(self)
        elif self._kept is not None and size_bytes >= len(self._kept):
            return
        self._budget = budget
        budget.hold(self, size_bytes)

    def _move_to(self, size_bytes: int) -> None:
        """Move the bytes not taken into a buffer of `size_bytes`."""
        rest = self._view[self._position :]
        kept = self._memory.buffer(size_bytes)
        self._filled, self._position, self._whole_at = len(rest), 0, 0
        kept[: self._filled] = rest
        self._kept, self._view = kept, kept[: self._filled]
        self.is_empty = not self._filled

    def _next_size(self) -> int | None:
        """Return the size of the next frame; None while it has not arrived. Raises BadFrame."""
        if len(self._view) - self._position < SIZE_BYTES:
            return None
        size: int = _SIZE.unpack_from(self._view, self._position)[0]
        if not FRAME_BYTES_MIN <= size <= self._frame_bytes_max:
            raise BadFrame(
                _other_protocol(bytes(self._view[self._position : self._position + SIZE_BYTES]))
                or f"request of {size} bytes: must have {FRAME_BYTES_MIN} to "
                f"{self._frame_bytes_max} (socket.request.max.bytes)"
            )
        return size


def _other_protocol(start: bytes) -> str | None:
    """Return which other protocol these first bytes are of, in one line; None if they do not show it."""
    return next((what for first, what in _OTHER_PROTOCOLS.items() if start.startswith(first)), None)
