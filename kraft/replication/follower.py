"""The follower of one partition in one leader epoch: fetches, truncates where its log diverges, appends.

The fetch offset is the end of what is synced, so a fetch also tells the leader that everything below it is on this
disk. The log is truncated only where the leader's epochs differ; the high watermark is kept because this replica
may lead later.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

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


class FetchPosition(Struct, frozen=True, kw_only=True):
    """Parameters of the next fetch; `last_fetched_epoch` is that of the record below `fetch_offset`, -1 for none."""

    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    current_leader_epoch: LeaderEpoch
    high_watermark: Offset
    log_start: Offset

    def asks_the_same_as(self, other: FetchPosition) -> bool:
        """True if the leader's response to one is valid for the other."""
        return (self.fetch_offset, self.last_fetched_epoch, self.current_leader_epoch) == (
            other.fetch_offset,
            other.last_fetched_epoch,
            other.current_leader_epoch,
        )


class _FollowerPhase(Enum):
    FETCHING = auto()
    CHANGING_LOG = auto()
    """An append or a truncation was requested, and its end is not reported yet."""
    FENCED = auto()


class PartitionFollower:
    """Owns the fetch position and the high watermark of a partition that this broker follows.

    `log` supplies epochs and offsets. Invariant: the high watermark goes down only by a truncation below it, which
    takes an unclean election.
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
        self._was_answered = False
        self._retry_backoff_ms = retry_backoff_ms
        self._phase = _FollowerPhase.FETCHING

    @property
    def high_watermark(self) -> Offset:
        """End of the records known to be committed and on this disk."""
        return self._high_watermark

    @property
    def has_all_committed(self) -> bool:
        """True if this disk has every record that was committed at the leader's latest answer in this epoch."""
        return self._was_answered and self._durable_end >= self._leader_high_watermark

    @property
    def needs_sync(self) -> bool:
        """True while the log has an unsynced tail, as after leading: sync it and call `appended` to continue."""
        return self._durable_end < self._log.log_end_offset

    def next_fetch(self) -> FetchPosition | None:
        """Return the next fetch; None while the log is changing or needs a sync, and after the leader epoch ended."""
        if self._phase is not _FollowerPhase.FETCHING or self.needs_sync:
            return None
        return self._position()

    def answered(self, asked: FetchPosition, result: ReplicaFetchResult) -> list[FollowerEffect]:
        """Handle the leader's response to `asked`. On OFFSET_OUT_OF_RANGE it carries the leader's `log_start_offset`.

        A response that arrives after the log changed is dropped: its diverging epoch refers to another state of the
        log, and truncating to it could drop records that the leader has since counted as replicated here.
        """
        if (
            self._phase is not _FollowerPhase.FETCHING
            or self.needs_sync
            or not asked.asks_the_same_as(self._position())
        ):
            return []
        match result.error_code:
            case ErrorCode.NONE:
                return self._accepted(result)
            case ErrorCode.FENCED_LEADER_EPOCH:
                self._phase = _FollowerPhase.FENCED
                return [WaitForMetadata()]
            case ErrorCode.OFFSET_OUT_OF_RANGE:
                return self._out_of_range(result)
            case _:
                # A leader that does not know this epoch yet, or not that it leads, has older metadata than this broker:
                # retry, since no newer metadata is on its way here.
                return [Retry(after_ms=self._retry_backoff_ms)]

    def appended(self, log_end: Offset, durable_end: Offset) -> list[FollowerEffect]:
        """Handle an append or a sync of the log. Fetching continues when both ends are equal."""
        assert durable_end <= log_end == self._log.log_end_offset, f"reported {durable_end}, {log_end}"
        self._durable_end = durable_end
        if self._phase is _FollowerPhase.CHANGING_LOG:
            self._phase = _FollowerPhase.FETCHING
        return self._caught_up_with_leader()

    def append_refused(self) -> list[FollowerEffect]:
        """Handle records that failed the log's checks (damaged in transit, or out of order): fetch again later."""
        if self._phase is _FollowerPhase.CHANGING_LOG:
            self._phase = _FollowerPhase.FETCHING
        return [Retry(after_ms=self._retry_backoff_ms)]

    def log_moved(self, log: EpochEnds) -> None:
        """Use `log`, an equal log in another log directory, from now on."""
        self._log = log

    def truncated(self, log_end: Offset, durable_end: Offset) -> list[FollowerEffect]:
        """Handle the end of a `TruncateTo` or `RestartAt`."""
        assert durable_end <= log_end == self._log.log_end_offset, f"reported {durable_end}, {log_end}"
        self._durable_end = durable_end
        if self._phase is _FollowerPhase.CHANGING_LOG:
            self._phase = _FollowerPhase.FETCHING
        kept = Offset(min(max(self._high_watermark, self._log.log_start_offset), log_end))
        if kept == self._high_watermark:
            return []
        self._high_watermark = kept
        return [SetHighWatermark(high_watermark=kept)]

    # --- responses -------------------------------------------------------------------------------------------

    def _accepted(self, result: ReplicaFetchResult) -> list[FollowerEffect]:
        if result.leader_epoch != self.leader_epoch:
            return [Retry(after_ms=self._retry_backoff_ms)]
        if result.diverging_epoch >= 0:
            diverging = DivergingEpoch(
                epoch=LeaderEpoch(result.diverging_epoch), end_offset=Offset(result.diverging_end_offset)
            )
            offset = truncation_offset(self._log, diverging)
            if 0 <= offset < result.log_start_offset:
                # Nothing that is left here is in the leader's log. Below its start no log may end: the records there
                # were committed, and their offsets must not be given to others.
                return self._restart(Offset(result.log_start_offset))
            return self._truncate(offset)
        self._was_answered = True
        self._leader_high_watermark = Offset(result.high_watermark)
        self._leader_log_start = Offset(result.log_start_offset)
        if not result.records:
            return self._caught_up_with_leader()
        self._phase = _FollowerPhase.CHANGING_LOG
        return [AppendRecords(records=result.records)]

    def _truncate(self, offset: Offset) -> list[FollowerEffect]:
        if offset < 0 or offset >= self._log.log_end_offset:
            # Nothing would change, and the same fetch would get the same response without end.
            return [Retry(after_ms=self._retry_backoff_ms)]
        if offset < self._log.log_start_offset:
            return self._restart(offset)
        self._phase = _FollowerPhase.CHANGING_LOG
        return [*self._committed_loss(offset), TruncateTo(offset=offset)]

    def _out_of_range(self, result: ReplicaFetchResult) -> list[FollowerEffect]:
        leader_start = Offset(result.log_start_offset)
        is_empty = self._log.log_start_offset == self._log.log_end_offset
        if leader_start > self._durable_end or (is_empty and 0 <= leader_start < self._durable_end):
            # Either retention passed this replica, or the leader's whole log is below the start of our empty one.
            return self._restart(leader_start)
        return [Retry(after_ms=self._retry_backoff_ms)]

    def _restart(self, offset: Offset) -> list[FollowerEffect]:
        self._phase = _FollowerPhase.CHANGING_LOG
        return [*self._committed_loss(offset), RestartAt(offset=offset)]

    def _committed_loss(self, offset: Offset) -> list[FollowerEffect]:
        # A log that begins at its high watermark keeps no committed record that it could lose.
        if max(offset, self._log.log_start_offset) >= self._high_watermark:
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
        # Not above the high watermark: records above it may still be truncated, and a log cannot be truncated below its
        # start. The log start advances further as the high watermark does.
        reached = Offset(min(self._leader_log_start, self._high_watermark))
        return [AdvanceLogStart(offset=reached)] if reached > self._log.log_start_offset else []

    def _raise_high_watermark(self) -> list[FollowerEffect]:
        # Never above what is synced: a crash may lose the rest. Never down: a new leader's high watermark may lag
        # behind ours, and everything below ours is committed.
        reached = Offset(min(self._leader_high_watermark, self._durable_end))
        if reached <= self._high_watermark:
            return []
        self._high_watermark = reached
        return [SetHighWatermark(high_watermark=reached)]
