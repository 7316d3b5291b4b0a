"""The partitions that follow one leader: which of them to fetch next.

Each partition has at most one fetch that is not answered. Nothing here looks at all partitions but `update`, when the
metadata has changed, and `ask_again`: a partition is looked at after its log or its role changed, when it was answered,
and when its pause is over.

A request is answered as soon as there is news for one of its partitions, for all of them. So partitions that had news
a short time ago are fetched without those that had none, and no request has many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Final

from msgspec import Struct

from kraft.model.callbacks import Callback
from kraft.model.ids import BrokerId
from kraft.replication.follower import FetchPosition, PartitionFollower
from kraft.server.loop.periods import loop_time_s
from kraft.server.loop.purgatory import NotifierSubscription
from kraft.server.replica.partition import Partition
from kraft.server.replica.replication_throttles import FollowerThrottle

PARTITIONS_PER_REQUEST_MAX: Final = 64
"""News for one partition costs both ends a step for each partition of the request."""

NEWS_AGE_S_MAX: Final = 0.1
"""A partition counts as one with news so long after its latest: an answer without news may be one for the news of
another partition, or for the end of a short wait.
"""


HELD_BACK_S_MIN: Final = 0.01
"""Time after which partitions that wait for the throttle are looked at again, when others were allowed to before."""


class PartitionFetch(Struct, frozen=True, kw_only=True):
    """The fetch of one partition."""

    partition: Partition
    follower: PartitionFollower
    position: FetchPosition
    reserved_bytes: int
    """The most that it returns if the throttle limits it, except for a single batch; 0 if not."""


class FollowedPartitions:
    def __init__(
        self, partitions: Iterable[Partition], leader_id: BrokerId, throttle: FollowerThrottle, wake: Callback
    ) -> None:
        """`partitions` are all of this broker. `wake` is called when `take_ready` may have something."""
        self._all = partitions
        self._leader_id = leader_id
        self._throttle = throttle
        self._wake = wake
        self._followed: dict[Partition, NotifierSubscription] = {}
        self._had_news: dict[Partition, float] = {}
        """The partitions that had news a short time ago, each with the time of its latest."""
        self._lively: dict[Partition, None] = {}
        """Partitions to look at that had news, in the order of their events."""
        self._quiet: dict[Partition, None] = {}
        """The others to look at, in the same order."""
        self._quiet_first = False
        self._asked: dict[Partition, PartitionFollower] = {}
        """The machine of each partition whose fetch is not answered."""
        self._paused: dict[Partition, asyncio.TimerHandle] = {}
        self._held_back: dict[Partition, None] = {}
        """Partitions that wait for the throttle, the first one longest."""
        self._held_back_timer: asyncio.TimerHandle | None = None

    def update(self) -> None:
        """Find the partitions that follow this leader now, or are about to."""
        found = [partition for partition in self._all if partition.followed == self._leader_id]
        for gone in self._followed.keys() - set(found):
            self._followed.pop(gone).cancel()
            self._asked.pop(gone, None)
            self._had_news.pop(gone, None)
            self._held_back.pop(gone, None)
            self._end_pause(gone)
        for partition in found:
            if partition not in self._followed:
                self._followed[partition] = NotifierSubscription(partition.appended, partial(self._look_at, partition))
            self._look_at(partition)

    def take_ready(self) -> tuple[list[PartitionFetch], bool]:
        """Return the fetches of one request, and True if their partitions had news; no fetch if none is ready.

        No partition has another fetch that is not answered. `answered` must be called for each of them. Both kinds of
        partitions take turns, so that none waits for ever.
        """
        for had_news in (False, True) if self._quiet_first else (True, False):
            if fetches := self._take(self._lively if had_news else self._quiet):
                self._quiet_first = had_news
                return fetches, had_news
        return [], False

    def answered(self, fetch: PartitionFetch, brought_news: bool, size_bytes: int = 0) -> None:
        """Note that the fetch is over, and has brought so many bytes."""
        if fetch.reserved_bytes:
            self._throttle.received(fetch.reserved_bytes, size_bytes)
        if self._asked.get(fetch.partition) is fetch.follower:
            del self._asked[fetch.partition]
            self._note_news(fetch.partition, brought_news)
            self._look_at(fetch.partition)

    def ask_again(self) -> None:
        """Note that no fetch will be answered any more."""
        self._asked.clear()
        for partition in self._followed:
            self._look_at(partition)

    def pause(self, partition: Partition, seconds: float) -> None:
        """Fetch the partition again only after this time."""
        if partition in self._followed:
            self._end_pause(partition)
            loop = asyncio.get_running_loop()
            self._paused[partition] = loop.call_later(seconds, self._pause_over, partition)

    def look_at_held_back(self) -> None:
        """Look at all that waits for the throttle: it, or what it is for, may have changed."""
        self._end_held_back_timer()
        held_back, self._held_back = self._held_back, {}
        for partition in held_back:
            self._look_at(partition)

    def look_at_unlimited(self) -> None:
        """Look at what waits for the throttle and is not limited any more: acknowledgements wait for these replicas."""
        for partition in list(self._held_back):
            follower = partition.follower
            if follower is None or not self._throttle.limits(partition, follower):
                del self._held_back[partition]
                self._look_at(partition)

    def close(self) -> None:
        self._end_held_back_timer()
        for partition, subscription in self._followed.items():
            subscription.cancel()
            self._end_pause(partition)
        self._followed.clear()

    def _note_news(self, partition: Partition, brought_news: bool) -> None:
        now_s = loop_time_s()
        if brought_news:
            self._had_news[partition] = now_s
        elif (at_s := self._had_news.get(partition)) is not None and now_s - at_s >= NEWS_AGE_S_MAX:
            del self._had_news[partition]

    def _take(self, partitions: dict[Partition, None]) -> list[PartitionFetch]:
        fetches: list[PartitionFetch] = []
        while partitions and len(fetches) < PARTITIONS_PER_REQUEST_MAX:
            partition = next(iter(partitions))
            del partitions[partition]
            if (fetch := self._next_fetch(partition)) is not None:
                fetches.append(fetch)
        return fetches

    def _next_fetch(self, partition: Partition) -> PartitionFetch | None:
        follower = partition.follower
        if follower is None or follower.leader_id != self._leader_id or self._asked.get(partition) is follower:
            return None
        # During a change, such as an advance of the log start, the fetch would not report what the leader waits for.
        if partition in self._paused or partition.replica_log.is_changing or partition not in self._followed:
            return None
        position = follower.next_fetch()
        if position is None:
            return None
        reserved_bytes = 0
        if self._throttle.limits(partition, follower):
            if self._throttle.wait_ms() > 0:
                self._hold_back(partition)
                return None
            reserved_bytes = self._throttle.reserve()
        self._asked[partition] = follower
        return PartitionFetch(partition=partition, follower=follower, position=position, reserved_bytes=reserved_bytes)

    def _hold_back(self, partition: Partition) -> None:
        self._held_back[partition] = None
        if self._held_back_timer is None:
            wait_s = max(self._throttle.wait_ms() / 1_000, HELD_BACK_S_MIN)
            self._held_back_timer = asyncio.get_running_loop().call_later(wait_s, self._wait_is_over)

    def _end_held_back_timer(self) -> None:
        if self._held_back_timer is not None:
            self._held_back_timer.cancel()
            self._held_back_timer = None

    def _wait_is_over(self) -> None:
        """Look at those that have waited longest. The throttle may not allow all of them, and then they wait again."""
        self._held_back_timer = None
        for partition in list(islice(self._held_back, PARTITIONS_PER_REQUEST_MAX)):
            del self._held_back[partition]
            self._look_at(partition)
        if self._held_back:
            self._hold_back(next(iter(self._held_back)))

    def _look_at(self, partition: Partition) -> None:
        if partition in self._had_news:
            self._quiet.pop(partition, None)
            self._lively[partition] = None
        else:
            self._lively.pop(partition, None)
            self._quiet[partition] = None
        self._wake()

    def _pause_over(self, partition: Partition) -> None:
        del self._paused[partition]
        self._look_at(partition)

    def _end_pause(self, partition: Partition) -> None:
        timer = self._paused.pop(partition, None)
        if timer is not None:
            timer.cancel()
