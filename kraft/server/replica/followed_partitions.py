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
from typing import Final

from msgspec import Struct

from kraft.model.callbacks import Callback
from kraft.model.ids import BrokerId
from kraft.replication.follower import FetchPosition, PartitionFollower
from kraft.server.loop.periods import loop_time_s
from kraft.server.loop.purgatory import NotifierSubscription
from kraft.server.replica.partition import Partition

PARTITIONS_PER_REQUEST_MAX: Final = 64
"""News for one partition costs both ends a step for each partition of the request."""

NEWS_AGE_S_MAX: Final = 0.1
"""A partition counts as one with news so long after its latest: an answer without news may be one for the news of
another partition, or for the end of a short wait.
"""


class PartitionFetch(Struct, frozen=True, kw_only=True):
    """The fetch of one partition."""

    partition: Partition
    follower: PartitionFollower
    position: FetchPosition


class FollowedPartitions:
    def __init__(self, partitions: Iterable[Partition], leader_id: BrokerId, wake: Callback) -> None:
        """`partitions` are all of this broker. `wake` is called when `take_ready` may have something."""
        self._all = partitions
        self._leader_id = leader_id
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

    def update(self) -> None:
        """Find the partitions that follow this leader now, or are about to."""
        found = [partition for partition in self._all if partition.followed == self._leader_id]
        for gone in self._followed.keys() - set(found):
            self._followed.pop(gone).cancel()
            self._asked.pop(gone, None)
            self._had_news.pop(gone, None)
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

    def answered(self, fetch: PartitionFetch, brought_news: bool) -> None:
        """Note that the fetch is over."""
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

    def close(self) -> None:
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
        self._asked[partition] = follower
        return PartitionFetch(partition=partition, follower=follower, position=position)

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
