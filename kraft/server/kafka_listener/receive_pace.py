"""Pace of one connection: how many bytes it receives at once, and whether a request arrives too slowly."""

from __future__ import annotations

from typing import Final

from kraft.server.kafka_listener.receive_memory import ReceiveMemory

KEPT_BYTES_MIN: Final = 1_024
"""Bytes that a connection may receive although no memory is left."""

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


class BytesAtOnce:
    """How many bytes one connection receives at once into the scratch buffer."""

    def __init__(self, scratch_bytes: int) -> None:
        self._scratch_bytes = scratch_bytes
        self._bytes_min = min(ROOM_BYTES_MIN, scratch_bytes)
        self.bytes_max = self._bytes_min
        self._end = 0
        self.were_all_there = False
        """The last bytes received filled the room, so the socket is likely to have more."""

    def end(self, begin: int, memory: ReceiveMemory) -> int:
        """Return the end of the room in the scratch buffer that begins at `begin`."""
        fair_bytes = max(memory.large.left // ROOM_PART, self._bytes_min)
        self._end = begin + KEPT_BYTES_MIN if memory.is_used_up else min(self.bytes_max, fair_bytes)
        return self._end

    def received(self, end: int) -> None:
        """Note that the scratch buffer is filled up to `end`."""
        self.were_all_there = end == self._end >= self._bytes_min

    def frames_taken(self, *, is_one_left: bool) -> None:
        """Note that the complete requests are begun, but for those that are left."""
        if is_one_left:
            self.bytes_max = self._bytes_min
        elif self.were_all_there:
            self.bytes_max = min(2 * self.bytes_max, self._scratch_bytes)


class ArrivalChecks:
    """Whether a request arrives too slowly, by a check once a second."""

    def __init__(self) -> None:
        self.arrived_bytes = 0
        """Bytes of it that have arrived since the last check."""

        self.slow_count = 0

    def is_slow(self, *, is_waited_for: bool) -> bool:
        """Check. `is_waited_for`: the sender alone keeps others waiting."""
        is_lazy = is_waited_for and self.arrived_bytes < ARRIVED_BYTES_MIN
        self.arrived_bytes = 0
        self.slow_count = self.slow_count + 1 if is_lazy else 0
        return self.slow_count >= SLOW_CHECKS_MAX
