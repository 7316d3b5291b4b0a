"""Which large requests are carried out at a time: what they are decoded to takes many times the memory of a frame.

A request waits for its turn in the buffer that it was received in, where its memory is accounted for, and its
connection reads no more meanwhile. Small requests never wait, and Produce requests are none of these: nearly all of
their bytes are records, which are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

LARGE_FROM_BYTES: Final = 256
"""A frame of more may name more than a few things."""

FETCH_SHARE: Final = 32
"""Of `socket.request.max.bytes`, this part may be under way as fetches. A partition of 16 to 33 bytes takes about 600
while its fetch waits. In 512 KiB are 16,000 partitions: consumers that ask for more than that twice a second take all
the time that one process has.
"""

OTHER_SHARE: Final = 256
"""Likewise of all other requests, which wait for little. A name of three bytes takes up to 600 in the request and its
answer together.
"""

PRODUCE_KEY: Final = 0
"""The second byte of a frame; the first is 0 in all of Kafka's keys."""

_FETCH_KEY: Final = 1


class Claimant(Protocol):
    """A connection's buffer. Compared by identity."""


@dataclass(slots=True)
class _Lane:
    bytes_max: int
    """Of frames under way together; with 0 there is one at a time, whatever its size."""

    under_way: dict[Claimant, int] = field(default_factory=dict)
    under_way_bytes: int = 0
    waiting: dict[Claimant, tuple[int, Callable[[], None]]] = field(default_factory=dict)
    """In the order in which they came."""

    def has_room(self, size_bytes: int) -> bool:
        return not self.under_way or self.under_way_bytes + size_bytes <= self.bytes_max

    def take(self, claimant: Claimant, size_bytes: int) -> None:
        self.under_way[claimant] = size_bytes
        self.under_way_bytes += size_bytes

    def give_back(self, claimant: Claimant) -> None:
        self.waiting.pop(claimant, None)
        self.under_way_bytes -= self.under_way.pop(claimant, 0)
        while self.waiting:
            first = next(iter(self.waiting))
            size_bytes, ask_again = self.waiting[first]
            if not self.has_room(size_bytes):
                return
            del self.waiting[first]
            # Its turn is kept for it until it asks again, or ends.
            self.take(first, size_bytes)
            ask_again()


class LargeRequests:
    """Those of all connections of a listener, in three lanes: fetches, which wait for records; the others; and those
    that would fill one of these lanes by themselves, one at a time, so that nobody else waits behind them.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self._fetches = _Lane(frame_bytes_max // FETCH_SHARE)
        self._others = _Lane(frame_bytes_max // OTHER_SHARE)
        self._largest = _Lane(0)
        self.bytes_most = 0
        """Of the largest that was carried out, since somebody last set this to 0."""

    @property
    def under_way_bytes(self) -> int:
        return sum(lane.under_way_bytes for lane in self._lanes)

    @property
    def waiting_count(self) -> int:
        return sum(len(lane.waiting) for lane in self._lanes)

    def begin(self, claimant: Claimant, frame: memoryview, ask_again: Callable[[], None]) -> bool:
        """False: not now, `ask_again` is called when it is the claimant's turn, and then it begins once more.

        True: it has the turn until it calls `end`.
        """
        lane = self._fetches if frame[1] == _FETCH_KEY else self._others
        if len(frame) > lane.bytes_max:
            lane = self._largest
        self.bytes_most = max(self.bytes_most, len(frame))
        if claimant in lane.under_way:
            return True
        if claimant in lane.waiting:
            return False
        if lane.waiting or not lane.has_room(len(frame)):
            lane.waiting[claimant] = len(frame), ask_again
            return False
        lane.take(claimant, len(frame))
        return True

    def end(self, claimant: Claimant) -> None:
        """Its request is answered, or no longer wanted."""
        for lane in self._lanes:
            lane.give_back(claimant)

    @property
    def _lanes(self) -> tuple[_Lane, _Lane, _Lane]:
        return self._fetches, self._others, self._largest
