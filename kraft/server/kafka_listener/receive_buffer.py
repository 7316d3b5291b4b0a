"""Receive buffer of one connection: how much is received at once, in which memory, and when a frame may be taken.

The bytes are in `frames`. Memory is granted as a frame arrives, from the budgets that all connections share.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kraft.model.callbacks import Callback
from kraft.server.kafka_listener.frame_buffer import SIZE_BYTES, FrameBuffer, FrameSizes
from kraft.server.kafka_listener.large_requests import LARGE_FROM_BYTES, WITHOUT_TURNS, LargeRequests
from kraft.server.kafka_listener.receive_memory import SMALL_BYTES_MAX, ReceiveMemory
from kraft.server.kafka_listener.receive_pace import KEPT_BYTES_MIN, ArrivalChecks, BytesAtOnce
from kraft.server.loop.budget import Budget

TRUST_FACTOR: Final = 4
"""A frame gets this many times the room that its sender has filled, since its size is only a claim. If the step
after this one would hold the whole frame, its full size is allocated now. Each step copies what has arrived, so a frame
takes at most 1.25 times its size.
"""

JOINED_BYTES_MAX: Final = SMALL_BYTES_MAX
"""A frame up to this size whose rest waits in the socket is received with those after it: its beginning is copied back
into the scratch buffer. Larger ones get memory of their own, so that less is copied.
"""


class ReceiveLimits(NamedTuple):
    """What a connection may make the node hold of requests that have not been answered."""

    sizes: FrameSizes
    memory: ReceiveMemory
    large: LargeRequests | None
    """None: its requests are not carried out in turns, whatever their size."""


class ReceiveBuffer:
    def __init__(self, scratch: memoryview, limits: ReceiveLimits, granted: Callback) -> None:
        """Set up an empty buffer.

        `granted` is called when memory is free after `make_room` was False, and when a large frame that `next_frame`
        did not return has its turn.
        """
        self.frames = FrameBuffer(scratch, limits.sizes)
        self._at_once = BytesAtOnce(len(scratch))
        self._arrival = ArrivalChecks()
        self._memory = limits.memory
        self._budget: Budget = limits.memory.small
        """Budget that counts the memory of `frames`."""

        self._large = limits.large
        self._granted = granted
        self.has_turn = False
        """A large frame was taken: call `finished` when it is answered."""

    def change_limits(self, limits: ReceiveLimits) -> None:
        """Go on within other limits, which count what is held already. No frame that was taken may be unanswered."""
        self.finished()
        self._budget.release(self)
        self.frames.sizes, self._memory, self._large = limits
        self._budget = self._memory.small
        if self.frames.own is not None:
            self._budget = self._memory.budget(len(self.frames.own))
            self._budget.hold(self, len(self.frames.own))

    @property
    def is_waiting(self) -> bool:
        """True if the buffer waits for memory that other connections hold."""
        return self._budget.is_waiting(self)

    def room(self) -> memoryview:
        """Return where to receive the next bytes. Never empty after `make_room` was True."""
        frames = self.frames
        if not frames.is_own_full:
            return frames.own_room()
        begin = 0 if frames.own is None else frames.copy_to_scratch()
        return frames.scratch[begin : self._at_once.end(begin, self._memory)]

    def received(self, count: int) -> bool:
        """Count `count` bytes received at the beginning of `room()`.

        Return False if a large frame is still incomplete and more must be received, True if there may be a frame to
        take; `keep_rest` must then be called before another connection receives.
        """
        frames, end = self.frames, count
        if not frames.is_own_full:
            self._at_once.were_all_there = False
            self._arrival.arrived_bytes += count
            return frames.received(count)
        if frames.own is not None:
            end += frames.received_bytes
            self._release(frames.own)
        frames.received_in_scratch(end)
        self._at_once.received(end)
        return True

    def next_frame(self) -> memoryview | None:
        """Return the next frame as `frames.peek` does, and remove it.

        None also for a large frame whose turn has not come yet: see LargeRequests.
        """
        frames = self.frames
        if frames.is_empty or (frame := frames.peek()) is None:
            return None
        if self.has_turn:
            # The connection takes the next frame only after it answered the one before.
            self.finished()
        if (
            len(frame) > LARGE_FROM_BYTES
            and self._large is not None
            and frame[1] not in WITHOUT_TURNS
            and not self._take_turn(self._large, frame)
        ):
            return None
        frames.take(frame)
        return frame

    def finished(self) -> None:
        """End the turn of the large frame that was taken: it is answered, or will not be."""
        self.has_turn = False
        if self._large is not None:
            self._large.end(self)

    def keep_rest(self) -> None:
        """Move the bytes not taken out of the scratch buffer, which the next connection uses."""
        frames = self.frames
        if frames.own is None:
            self._at_once.frames_taken(is_one_left=not frames.is_empty and frames.peek() is not None)
        if frames.is_empty:
            self.clear()
        elif frames.own is None:
            self._keep_only_rest()

    def make_room(self) -> bool:
        """Make room for more of an incomplete frame. Raises BadFrame.

        False: other connections hold the memory at present, or a complete frame waits here for its turn.
        """
        frames = self.frames
        if frames.own is None:
            return True
        size, left = frames.next_size(), frames.rest_bytes
        wanted = KEPT_BYTES_MIN if size is None else SIZE_BYTES + size
        if wanted <= left:
            return False
        if not frames.is_own_full:
            return True
        if frames.has_taken:
            self._keep_only_rest()
        if self._may_join(wanted):
            return True
        size_bytes = max(TRUST_FACTOR * left, KEPT_BYTES_MIN)
        if TRUST_FACTOR * size_bytes >= wanted:
            size_bytes = wanted
        self._hold_in(self._memory.budget(wanted), left)
        if not self._budget.claim(self, size_bytes, self._granted):
            return False
        frames.move_to(self._memory.buffer(size_bytes), 0 if size is None else wanted)
        return True

    def is_slow(self) -> bool:
        """Return whether this request arrives too slowly while others wait for its memory. Call once a second."""
        has_begun = self.frames.own is not None and self.frames.received_bytes > KEPT_BYTES_MIN
        return self._arrival.is_slow(is_waited_for=has_begun and not self.is_waiting and self._budget.waiting_count > 0)

    def clear(self) -> None:
        """Drop all bytes and release the memory."""
        frames = self.frames
        if frames.own is not None:
            self._release(frames.own)
        frames.clear()
        self._at_once.were_all_there = False

    def close(self) -> None:
        """Drop all bytes, and the reference to the connection."""
        self.clear()
        self._granted = lambda: None

    def _release(self, own: memoryview) -> None:
        self._memory.reuse(own)
        self._arrival.slow_count = 0
        self._budget.release(self)

    def _may_join(self, frame_bytes: int) -> bool:
        """Return whether the rest of a frame is to be received into the scratch buffer, behind its beginning."""
        memory = self._memory
        return (
            self._at_once.were_all_there
            and frame_bytes <= min(JOINED_BYTES_MAX, self._at_once.bytes_max // 2)
            and not memory.is_used_up
            and not memory.small.waiting_count
        )

    def _take_turn(self, large: LargeRequests, frame: memoryview) -> bool:
        self.has_turn = large.begin(self, frame, self._granted)
        return self.has_turn

    def _keep_only_rest(self) -> None:
        size_bytes = self.frames.rest_bytes
        self._hold_in(self._memory.budget(max(size_bytes, self.frames.next_size() or 0)), size_bytes)
        self.frames.move_to(self._memory.buffer(size_bytes))

    def _hold_in(self, budget: Budget, size_bytes: int) -> None:
        """Hold `size_bytes` in `budget`, unless that much is held already."""
        own = self.frames.own
        if budget is not self._budget:
            self._budget.release(self)
        elif own is not None and size_bytes >= len(own):
            return
        self._budget = budget
        budget.hold(self, size_bytes)
