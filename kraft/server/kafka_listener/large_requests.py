"""Which large requests are carried out at a time: what they are decoded to takes many times the memory of a frame.

A request waits for its turn in the buffer that it was received in, where its memory is accounted for, and its
connection reads no more meanwhile. Small requests never wait, and Produce requests are none of these: nearly all of
their bytes are records, which are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from kraft.server.loop.budget import Beyond, Budget

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


class LargeRequests:
    """Those of all connections of a listener, in three lanes: fetches, which wait for records; the others; and those
    that would fill one of these lanes by themselves, one at a time, so that nobody else waits behind them.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self.fetches = Budget(frame_bytes_max // FETCH_SHARE, Beyond.ALONE)
        self.others = Budget(frame_bytes_max // OTHER_SHARE, Beyond.ALONE)
        self.largest = Budget(0, Beyond.ALONE)
        self.bytes_most = 0
        """Size of the largest that was carried out since this was last set to 0."""

    def begin(self, claimant: Hashable, frame: memoryview, granted: Callable[[], None]) -> bool:
        """False: not now, `granted` is called when it is the claimant's turn, and then it begins once more.

        True: it has the turn until it calls `end`.
        """
        lane = self.fetches if frame[1] == _FETCH_KEY else self.others
        if len(frame) > lane.size_max:
            lane = self.largest
        self.bytes_most = max(self.bytes_most, len(frame))
        return lane.claim(claimant, len(frame), granted)

    def end(self, claimant: Hashable) -> None:
        """Its request is answered, or no longer wanted."""
        for lane in (self.fetches, self.others, self.largest):
            lane.release(claimant)
