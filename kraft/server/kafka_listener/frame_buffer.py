"""Bytes that one connection has received, cut into frames without copying where possible.

All connections receive into one scratch buffer, since the frames of one are taken out before the next one reads. Only
the rest, the beginning of a frame, is kept in memory of the connection's own. So idle connections hold no memory,
however many there are. How much is received, and in which memory, is decided in receive_buffer.py.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from kraft.server.kafka_listener.other_protocols import other_protocol

SIZE_BYTES: Final = 4
"""Length of the signed integer before each frame that says how many bytes follow."""

_SIZE: Final = Struct(">i")

FRAME_BYTES_MIN: Final = 8
"""Every request has at least an API key, a version and a correlation id."""


class BadFrame(Exception):
    """Invalid frame size: the bytes are not Kafka's protocol, or the request is larger than allowed."""


class FrameSizes(NamedTuple):
    """The sizes that a frame may have."""

    bytes_max: int
    source: str = "socket.request.max.bytes"
    """Where `bytes_max` comes from, for messages."""

    bytes_min: int = FRAME_BYTES_MIN


class FrameBuffer:
    def __init__(self, scratch: memoryview, sizes: FrameSizes) -> None:
        self.scratch = scratch
        self.sizes = sizes
        self.own: memoryview | None = None
        """Memory of this connection alone. None: what was received is in the scratch buffer."""

        self._own_frame_bytes = 0
        """Bytes of the frame that `own` is for, with its size; 0 if that had not arrived yet."""

        self._view = scratch[:0]
        """What was received."""

        self._position = 0
        """Where the next frame begins in it."""

        self.is_empty = True
        """Every byte was taken."""

        self.is_own_full = True
        """True also if there is no memory of the connection's own."""

    # --- receiving -----------------------------------------------------------------------------------------------

    @property
    def received_bytes(self) -> int:
        return len(self._view)

    def own_room(self) -> memoryview:
        """Return the room that is left in `own`."""
        assert self.own is not None
        return self.own[len(self._view) :]

    def copy_to_scratch(self) -> int:
        """Copy `own`, which is full, to the beginning of the scratch buffer; return its length."""
        assert self.own is not None
        self.scratch[: len(self.own)] = self.own
        return len(self.own)

    def received(self, count: int) -> bool:
        """Count bytes at the beginning of the room left in `own`.

        Return False if the frame that it is for is still incomplete, and there is room for more of it.
        """
        assert self.own is not None
        filled = len(self._view) + count
        self._view = self.own[:filled]
        self.is_empty, self.is_own_full = False, filled == len(self.own)
        return self.is_own_full or filled >= self._own_frame_bytes

    def received_in_scratch(self, size_bytes: int) -> None:
        """Go on with the first `size_bytes` of the scratch buffer, and not with what was received before."""
        self.own, self._view, self._position = None, self.scratch[:size_bytes], 0
        self.is_empty, self.is_own_full = False, True

    # --- frames --------------------------------------------------------------------------------------------------

    @property
    def rest_bytes(self) -> int:
        """Number of bytes not taken."""
        return len(self._view) - self._position

    @property
    def has_taken(self) -> bool:
        """True if there are bytes that were taken before those that were not."""
        return self._position > 0

    @property
    def is_partial(self) -> bool:
        """True if the beginning of a frame has arrived and its end has not. Raises BadFrame."""
        return not self.is_empty and self.peek() is None

    def next_size(self) -> int | None:
        """Return the size of the next frame; None while it has not arrived. Raises BadFrame."""
        if len(self._view) - self._position < SIZE_BYTES:
            return None
        size: int = _SIZE.unpack_from(self._view, self._position)[0]
        sizes = self.sizes
        if not sizes.bytes_min <= size <= sizes.bytes_max:
            raise BadFrame(
                other_protocol(bytes(self._view[self._position : self._position + SIZE_BYTES]))
                or f"request of {size} bytes: must have {sizes.bytes_min} to {sizes.bytes_max} ({sizes.source})"
            )
        return size

    def peek(self) -> memoryview | None:
        """Return the next complete frame, without its size; valid until more is received. Raises BadFrame."""
        size = self.next_size()
        if size is None:
            return None
        begin = self._position + SIZE_BYTES
        if len(self._view) - begin < size:
            return None
        return self._view[begin : begin + size]

    def take(self, frame: memoryview) -> None:
        """Remove the next frame, which `peek` returned."""
        self._position += SIZE_BYTES + len(frame)
        self.is_empty = self._position == len(self._view)

    def put_back(self, frame: memoryview) -> None:
        """Undo `take` of the frame that was taken last."""
        self._position -= SIZE_BYTES + len(frame)
        self.is_empty = False

    # --- the connection's own memory -----------------------------------------------------------------------------

    def move_to(self, own: memoryview, frame_bytes: int = 0) -> None:
        """Move the bytes not taken into other memory; `frame_bytes`: that of a frame of this length with its size."""
        rest = self._view[self._position :]
        own[: len(rest)] = rest
        self.own, self._own_frame_bytes = own, frame_bytes
        self._view, self._position = own[: len(rest)], 0
        self.is_empty, self.is_own_full = not rest, len(rest) == len(own)

    def clear(self) -> None:
        """Drop all bytes."""
        self.own, self._view, self._position = None, self.scratch[:0], 0
        self.is_empty = self.is_own_full = True
