"""A follower of one partition in one leader epoch: asks, cuts its log back to the leader's, appends.

The fetch offset is the end of what is synced, so a fetch is at the same time the promise that the leader counts:
everything below is on this disk. Only what the leader's epochs say is ever truncated; the high watermark is
carried along for the day when this replica leads.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId, LeaderEpoch, Offset, TopicId
from kraft.model.replica_fetch import ReplicaFetchResult
from kraft.replication.divergence import DivergingEpoch, EpochEnds, last_epoch_below, truncation_offset
from kraft.replication.effects import (
    AdvanceLogStart,
    AppendRecords,
    FollowerEffect,
    RestartAt,
    Retry,
    SetHighWatermark,
    TruncatedBelowHighWatermark,
    TruncateTo,
    WaitForMetadata,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    """What to ask the leader for; `last_fetched_epoch` is that of the record below `fetch_offset`, -1 for none."""

    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    current_leader_epoch: LeaderEpoch
    high_watermark: Offset
    log_start: Offset

    def asks_the_same_as(self, other: FetchPosition) -> bool:
        """True when the leader's answer to the one is its answer to the other."""
        return (self.fetch_offset, self.last_fetched_epoch, self.current_leader_epoch) == (
            other.fetch_offset,
            other.last_fetched_epoch,
            other.current_leader_epoch,
        )


class _Phase(Enum):
    FETCHING = auto()
    CHANGING_LOG = auto()
    """An append or a truncation was asked for and is not reported yet."""
    FENCED = auto()


class PartitionFollower:
    """Owns the fetch position and the high watermark of a partition that this broker follows.

    `log` is asked for its epochs and its offsets. Invariant: the high watermark goes down only by a truncation
    below it, which takes an unclean election.
    """

    def __init__(
        self,
        *,
        topic_id: TopicId,
        partition: int,
        leader_id: BrokerId,
        leader_epoch: LeaderEpoch,
        log: EpochEnds,
        durable_end: Offset,
        high_watermark: Offset,
        retry_backoff_ms: int = 100,
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self._log = log
        self._durable_end = durable_end
        self._high_watermark = Offset(min(max(high_watermark, log.log_start_offset), log.log_end_offset))
        self._leader_high_watermark = self._high_watermark
        self._leader_log_start = Offset(log.log_start_offset)
        self._retry_backoff_ms = retry_backoff_ms
        self._phase = _Phase.FETCHING

    @property
    def high_watermark(self) -> Offset:
        """End of what is committed and on this disk, as far as this replica knows."""
        return self._high_watermark

    @property
    def needs_sync(self) -> bool:
        """True while the log has an unsynced tail, as after leading: sync it and report `appended` to go on."""
        return self._durable_end < self._log.log_end_offset

    def next_fetch(self) -> FetchPosition | None:
        """Where to read on; None while the log is being changed or synced, and after the leader epoch has ended."""
        if self._phase is not _Phase.FETCHING or self.needs_sync:
            return None
        return self._position()

    def answered(self, asked: FetchPosition, result: ReplicaFetchResult) -> list[FollowerEffect]:
        """The leader's answer to `asked`. On OFFSET_OUT_OF_RANGE it carries the leader's `log_start_offset`.

        An answer that comes after the log went on is dropped: the end of an epoch that it names was asked for
        another log, and truncating to it could drop records that the leader has since counted as ours.
        """
        if self._phase is not _Phase.FETCHING or self.needs_sync or not asked.asks_the_same_as(self._position()):
            return []
        match result.error_code:
            case ErrorCode.NONE:
                return self._accepted(result)
            case ErrorCode.FENCED_LEADER_EPOCH:
                self._phase = _Phase.FENCED
                return [WaitForMetadata()]
            case ErrorCode.OFFSET_OUT_OF_RANGE:
                return self._out_of_range(result)
            case _:
                # That the leader does not know this epoch, or does not know that it leads, passes as soon as it
                # has read the metadata that we have read: there is no newer one for us to wait for.
                return [Retry(after_ms=self._retry_backoff_ms)]

    def appended(self, log_end: Offset, durable_end: Offset) -> list[FollowerEffect]:
        """The log was appended to or synced. A report of both ends; fetching goes on when they are equal."""
        assert durable_end <= log_end == self._log.log_end_offset, f"reported {durable_end}, {log_end}"
        self._durable_end = durable_end
        if self._phase is _Phase.CHANGING_LOG:
            self._phase = _Phase.FETCHING
        return self._caught_up_with_leader()

    def append_refused(self) -> list[FollowerEffect]:
        """The records did not pass the log's checks (damaged on their way, or out of place): ask again, later."""
        if self._phase is _Phase.CHANGING_LOG:
            self._phase = _Phase.FETCHING
        return [Retry(after_ms=self._retry_backoff_ms)]

    def log_moved(self, log: EpochEnds) -> None:
        """The same log, in another place: it is the one to be asked from here on."""
        self._log = log

    def truncated(self, log_end: Offset, durable_end: Offset) -> list[FollowerEffect]:
        """`TruncateTo` or `RestartAt` was done."""
        assert durable_end <= log_end == self._log.log_end_offset, f"reported {durable_end}, {log_end}"
        self._durable_end = durable_end
        if self._phase is _Phase.CHANGING_LOG:
            self._phase = _Phase.FETCHING
        kept = Offset(min(max(self._high_watermark, self._log.log_start_offset), log_end))
        if kept == self._high_watermark:
            return []
        self._high_watermark = kept
        return [SetHighWatermark(high_watermark=kept)]

    # --- answers ---------------------------------------------------------------------------------------------

    def _accepted(self, result: ReplicaFetchResult) -> list[FollowerEffect]:
        if result.leader_epoch != self.leader_epoch:
            return [Retry(after_ms=self._retry_backoff_ms)]
        if result.diverging_epoch >= 0:
            diverging = DivergingEpoch(
                epoch=LeaderEpoch(result.diverging_epoch), end_offset=Offset(result.diverging_end_offset)
            )
            return self._cut_back(truncation_offset(self._log, diverging))
        self._leader_high_watermark = Offset(result.high_watermark)
        self._leader_log_start = Offset(result.log_start_offset)
        if not result.records:
            return self._caught_up_with_leader()
        self._phase = _Phase.CHANGING_LOG
        return [AppendRecords(records=result.records)]

    def _cut_back(self, offset: Offset) -> list[FollowerEffect]:
        if offset < 0 or offset >= self._log.log_end_offset:
            # Nothing would change, and the same question would be answered the same for ever.
            return [Retry(after_ms=self._retry_backoff_ms)]
        if offset < self._log.log_start_offset:
            return self._restart(offset)
        self._phase = _Phase.CHANGING_LOG
        return [*self._committed_loss(offset), TruncateTo(offset=offset)]

    def _out_of_range(self, result: ReplicaFetchResult) -> list[FollowerEffect]:
        leader_start = Offset(result.log_start_offset)
        is_empty = self._log.log_start_offset == self._log.log_end_offset
        if leader_start > self._durable_end or (is_empty and 0 <= leader_start < self._durable_end):
            # Either retention outran this replica, or the leader's whole log lies before where our empty one begins.
            return self._restart(leader_start)
        return [Retry(after_ms=self._retry_backoff_ms)]

    def _restart(self, offset: Offset) -> list[FollowerEffect]:
        self._phase = _Phase.CHANGING_LOG
        return [*self._committed_loss(offset), RestartAt(offset=offset)]

    def _committed_loss(self, offset: Offset) -> list[FollowerEffect]:
        if offset >= self._high_watermark:
            return []
        return [TruncatedBelowHighWatermark(offset=offset, high_watermark=self._high_watermark)]

    # --- small parts -----------------------------------------------------------------------------------------

    def _position(self) -> FetchPosition:
        return FetchPosition(
            fetch_offset=self._durable_end,
            last_fetched_epoch=last_epoch_below(self._log, self._durable_end),
            current_leader_epoch=self.leader_epoch,
            high_watermark=self._high_watermark,
            log_start=Offset(self._log.log_start_offset),
        )

    def _caught_up_with_leader(self) -> list[FollowerEffect]:
        return [*self._raise_high_watermark(), *self._raise_log_start()]

    def _raise_log_start(self) -> list[FollowerEffect]:
        # Not above the high watermark: what is not known to be committed may still be truncated, and a log cannot be
        # cut back to before its start. The rest of the way is made when the high watermark has come so far.
        reached = Offset(min(self._leader_log_start, self._high_watermark))
        return [AdvanceLogStart(offset=reached)] if reached > self._log.log_start_offset else []

    def _raise_high_watermark(self) -> list[FollowerEffect]:
        # Never above what is synced: a crash may take the rest. Never down: a new leader may know less than we do
        # of what was committed before it, and everything below our own high watermark was.
        reached = Offset(min(self._leader_high_watermark, self._durable_end))
        if reached <= self._high_watermark:
            return []
        self._high_watermark = reached
        return [SetHighWatermark(high_watermark=reached)]
