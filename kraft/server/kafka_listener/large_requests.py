"""Limits how many large requests are carried out at a time: decoded, they take many times the memory of their frame.

A request waits for its turn in the buffer that received it, where its memory is counted, and its connection reads no
more meanwhile. Small requests never wait. Neither do Produce requests of up to some thousand partitions: nearly all of
their bytes are records, which are not decoded. One with more takes its turn among the largest, until its records are
appended or wait for that (`KafkaRequests`). JoinGroup and SyncGroup do not wait either: they are answered when the
other members of their group have sent theirs, which must not wait for them. Their handler limits the memory that they
take together.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from kraft.model.callbacks import Callback
from kraft.server.loop.budget import BeyondBudget, Budget
from kraft.wire.api_keys import ApiKey

LARGE_FROM_BYTES: Final = 256
"""A larger frame may name more than a few topics or partitions, and counts as large."""

FETCH_SHARE: Final = 32
"""Large fetches in progress take at most `socket.request.max.bytes` / 32. A partition of 16 to 33 bytes takes about 600
while its fetch waits. 512 KiB hold 16,000 partitions: consumers that ask for more than that twice a second use all the
CPU time of one process.
"""

OTHER_SHARE: Final = 256
"""Other large requests in progress take at most `socket.request.max.bytes` / 256; they are answered soon. A name of
three bytes takes up to 600 in the request and its response together.
"""

WITHOUT_TURNS: Final = frozenset(map(int, (ApiKey.PRODUCE, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)))
"""Second bytes of the frames of these requests; the first byte of every Kafka API key is 0."""

_FETCH_KEY: Final = int(ApiKey.FETCH)


class LargeRequests:
    """Turns of the large requests of all connections, in three lanes.

    The lanes are fetches, which wait for records; all other requests; and requests that alone would fill one of these
    two lanes, one at a time, so that no other request waits behind them.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self.fetches = Budget(frame_bytes_max // FETCH_SHARE, BeyondBudget.ALONE)
        self.others = Budget(frame_bytes_max // OTHER_SHARE, BeyondBudget.ALONE)
        self.largest = Budget(0, BeyondBudget.ALONE)
        self.bytes_most = 0
        """Size of the largest request carried out since this was last set to 0."""

    def begin(self, claimant: Hashable, frame: memoryview, granted: Callback) -> bool:
        """Return True if it is the claimant's turn, which lasts until it calls `end`.

        Otherwise `granted` is called when its turn comes, and the claimant then calls this again.
        """
        lane = self.fetches if frame[1] == _FETCH_KEY else self.others
        if len(frame) > lane.size_max:
            lane = self.largest
        self.bytes_most = max(self.bytes_most, len(frame))
        return lane.claim(claimant, len(frame), granted)

    def end(self, claimant: Hashable) -> None:
        """End the claimant's turn: its request is answered or no longer wanted."""
        for lane in (self.fetches, self.others, self.largest):
            lane.release(claimant)
