"""ReplicaFetch: return the leader's records to followers, as soon as there is anything new for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerEpoch, BrokerId, Offset
from kraft.model.replica_fetch import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)
from kraft.replication.divergence import DivergingEpoch, check_follower_fetch
from kraft.server.loop.purgatory import Notifier, Watch
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.server.replica.replication_throttles import LeaderThrottle

_Checked = tuple[ReplicaFetchPartition, Refusal | None]
"""A partition of a request, and why its fetch is refused."""

HIGH_WATERMARK_PERIOD_MS: Final = 10
"""Followers that lack nothing but a higher high watermark are told at these intervals, unless records come first. Under
load each fetch would otherwise be two, one for the records and one for their high watermark; and what many partitions
are told at one moment is answered by one request of the follower."""


class _News(IntEnum):
    """News that a response has for a follower; higher is more urgent."""

    NONE = 0
    HELD_BACK = 1
    """There are records, which wait for the throttle."""
    HIGH_WATERMARK = 2
    URGENT = 3


class ReplicaFetchHandler:
    def __init__(self, partitions: Partitions, throttle: LeaderThrottle) -> None:
        self._partitions = partitions
        self._throttle = throttle

    async def handle(self, request: ReplicaFetchRequest) -> Callable[[], ReplicaFetchResponse]:
        """Wait until there are records, a new high watermark or other news, or the request's time is over.

        The log is read when the response is made.
        """
        # Not counted again after the wait: the request says what the follower had when it was sent.
        checked = [(wanted, self._count_progress(request, wanted)) for wanted in request.partitions]
        self._partitions.counts.replica_fetches_waiting += 1
        try:
            await self._until_news(request, checked)
        finally:
            self._partitions.counts.replica_fetches_waiting -= 1
        return lambda: ReplicaFetchResponse(number=request.number, partitions=self._read_all(request, checked))

    async def _until_news(self, request: ReplicaFetchRequest, checked: Sequence[_Checked]) -> None:
        loop = asyncio.get_running_loop()
        news, held_back = self._news(request, checked)
        deadline = loop.time() + request.max_wait_ms / 1_000
        is_shortened = False
        while news is not _News.URGENT:
            left_out = held_back
            # More records of what waits for the throttle are no news, and there may be thousands in a second.
            with Watch(self._watched(request, left_out)) as watch:
                while True:
                    if news is _News.HIGH_WATERMARK and not is_shortened:
                        is_shortened, deadline = True, min(deadline, _next_period(loop.time()))
                    watch.again()
                    until = deadline
                    if held_back:
                        until = min(until, loop.time() + self._throttle.wait_ms() / 1_000)
                    if not await watch.wait(until - loop.time()) and until == deadline:
                        return
                    news, held_back = self._news(request, checked)
                    if news is _News.URGENT or held_back != left_out:
                        break

    def _news(self, request: ReplicaFetchRequest, checked: Sequence[_Checked]) -> tuple[_News, list[int]]:
        """Return the most urgent news, and the places of the partitions whose records wait for the throttle."""
        most, held_back = _News.NONE, []
        for place, (wanted, refusal) in enumerate(checked):
            news = _News.URGENT if refusal is not None else self._news_of(request, wanted)
            if news is _News.URGENT:
                return news, []
            if news is _News.HELD_BACK:
                held_back.append(place)
            most = max(most, news)
        return most, held_back

    def _news_of(self, request: ReplicaFetchRequest, wanted: ReplicaFetchPartition) -> _News:
        """Return what the response would tell; an advanced high watermark or log start counts (KIP-1166).

        A follower that fetched in range can always follow the log start, which is never above the high watermark.
        """
        try:
            partition, diverging = self._compare(request, wanted)
            if diverging is not None:
                return _News.URGENT
            has_records = _has_records(partition, Offset(wanted.fetch_offset))
            is_held_back = has_records and self._holds_back(partition, request)
            if has_records and not is_held_back:
                return _News.URGENT
        except Refusal:
            return _News.URGENT
        if partition.log.log_start_offset > wanted.log_start_offset:
            return _News.URGENT
        # Without the records a follower's high watermark rises to their start at most.
        if min(partition.high_watermark, wanted.fetch_offset) > wanted.high_watermark:
            return _News.HIGH_WATERMARK
        return _News.HELD_BACK if is_held_back else _News.NONE

    def _holds_back(self, partition: Partition, request: ReplicaFetchRequest) -> bool:
        """Return whether records of the partition have to wait for the throttle."""
        return self._throttle.limits(partition, BrokerId(request.replica_id)) and self._throttle.wait_ms() > 0

    def _watched(self, request: ReplicaFetchRequest, left_out: Sequence[int]) -> list[Notifier]:
        out = frozenset(left_out)
        wanted = (each for place, each in enumerate(request.partitions) if place not in out)
        found = (self._partitions.find(each.id) for each in wanted)
        return [
            notifier
            for partition in found
            if partition is not None
            for notifier in (partition.appended, partition.committed)
        ]

    def _count_progress(self, request: ReplicaFetchRequest, wanted: ReplicaFetchPartition) -> Refusal | None:
        """Count the follower's progress if its log agrees with the leader's. Returns the Refusal if there is one."""
        try:
            partition, diverging = self._compare(request, wanted)
            if diverging is None:
                partition.follower_fetched(
                    BrokerId(request.replica_id),
                    BrokerEpoch(request.broker_epoch),
                    Offset(wanted.fetch_offset),
                    Offset(wanted.log_start_offset),
                )
        except Refusal as refusal:
            return refusal
        return None

    def _compare(
        self, request: ReplicaFetchRequest, wanted: ReplicaFetchPartition
    ) -> tuple[Partition, DivergingEpoch | None]:
        partition = self._partitions.by_id(wanted.id)
        leader = partition.as_leader(wanted.current_leader_epoch)
        empty_start_max = leader.empty_start_max(BrokerId(request.replica_id))
        return partition, check_follower_fetch(partition.log, leader.leader_epoch, wanted, empty_start_max)

    def _read_all(self, request: ReplicaFetchRequest, checked: Sequence[_Checked]) -> list[ReplicaFetchResult]:
        left, nothing_yet, found = request.max_bytes, True, []
        for wanted, refusal in checked:
            # The first batch of a response is returned whatever its size, so that no follower gets stuck.
            result = self._refused(wanted, refusal) if refusal else self._read(request, wanted, left, nothing_yet)
            left = max(left - len(result.records), 0)
            nothing_yet = nothing_yet and not result.records
            found.append(result)
        return found

    def _read(
        self, request: ReplicaFetchRequest, wanted: ReplicaFetchPartition, bytes_left: int, at_least_one: bool
    ) -> ReplicaFetchResult:
        try:
            partition, diverging = self._compare(request, wanted)
            records = b""
            has_records = diverging is None and partition.log.log_end_offset > wanted.fetch_offset
            if has_records and not self._holds_back(partition, request):
                bytes_max = min(bytes_left, wanted.partition_max_bytes)
                records = partition.replica_log.read(
                    Offset(wanted.fetch_offset), bytes_max, partition.log.log_end_offset, at_least_one
                )
                if self._throttle.limits(partition, BrokerId(request.replica_id)):
                    self._throttle.sent(len(records))
        except Refusal as refusal:
            return self._refused(wanted, refusal)
        self._partitions.counts.replication_bytes_out += len(records)
        return ReplicaFetchResult(
            topic_id=wanted.topic_id,
            partition=wanted.partition,
            error_code=ErrorCode.NONE,
            leader_epoch=partition.leader_epoch,
            high_watermark=partition.high_watermark,
            log_start_offset=partition.log.log_start_offset,
            records=records,
            diverging_epoch=-1 if diverging is None else diverging.epoch,
            diverging_end_offset=-1 if diverging is None else diverging.end_offset,
        )

    def _refused(self, wanted: ReplicaFetchPartition, refusal: Refusal) -> ReplicaFetchResult:
        held = self._partitions.find(wanted.id)
        return ReplicaFetchResult(
            topic_id=wanted.topic_id,
            partition=wanted.partition,
            error_code=refusal.error_code,
            error_message=refusal.message,
            leader_epoch=-1 if held is None else held.leader_epoch,
            log_start_offset=-1 if held is None else held.log.log_start_offset,
        )


def _has_records(partition: Partition, start: Offset) -> bool:
    """Return whether a read from `start` returns records. Raises Refusal where the read does."""
    log_end = partition.log.log_end_offset
    if log_end <= start or not partition.log.is_sparse:
        return log_end > start
    # Compaction may have removed all records from there on.
    return bool(partition.replica_log.read(start, 1, log_end, at_least_one=True))


def _next_period(now_s: float) -> float:
    # In whole milliseconds: the quotient of two floats may lie just below a moment that has been reached.
    return (round(now_s * 1_000) // HIGH_WATERMARK_PERIOD_MS + 1) * HIGH_WATERMARK_PERIOD_MS / 1_000
