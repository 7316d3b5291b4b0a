"""Progress of one follower, as its leader learns it from the follower's fetches."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from kraft.model.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, Offset

UNKNOWN_OFFSET = Offset(-1)
"""End offset of a follower that has not fetched yet. It is below every offset, so it stops the high watermark."""


class FollowerState(Struct, frozen=True, kw_only=True):
    """State of one follower, for descriptions and metrics; offset and broker epoch are -1 until it fetches."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    durable_end: Offset
    caught_up_ms: int | None
    behind_since_ms: int
    """Time from which on it may lack records; if it was never caught up in this leader epoch, the epoch's start."""

    in_isr: bool


@dataclass(slots=True, kw_only=True)
class _LastFetch:
    """Time of a follower's fetch, and the leader's log end at that time."""

    at_ms: int
    leader_end: Offset


@dataclass(slots=True, kw_only=True)
class FollowerProgress:
    """Progress of one follower. It has everything that the leader had at `caught_up_ms`.

    `caught_up_ms` is None if it was not caught up since it left the ISR, or never was.

    Invariant: everything below `durable_end` was on the follower's disk when it sent its last fetch.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    durable_end: Offset = UNKNOWN_OFFSET
    log_start: Offset = UNKNOWN_OFFSET
    """Start of its log when it sent its last fetch."""
    caught_up_ms: int | None = None
    out_of_isr_since_ms: int = 0
    """When it was caught up for the last time before it left the ISR. Only descriptions have it."""
    advanced_ms: int = 0
    """Time of its last fetch that had more than the one before it, or all that the leader had; or of its first."""
    _last_fetch: _LastFetch | None = None

    @property
    def last_fetch_ms(self) -> int | None:
        """Time of its last fetch; None: none since it left the ISR, or none at all."""
        return None if self._last_fetch is None else self._last_fetch.at_ms

    def fetched(self, *, broker_epoch: BrokerEpoch, fetch_offset: Offset, leader_end: Offset, now_ms: int) -> None:
        """Record a fetch from `fetch_offset`: everything below it is on the follower's disk."""
        if broker_epoch != self.broker_epoch:
            # The progress of the broker's earlier process says nothing about this one.
            self._last_fetch = None
            self.broker_epoch = broker_epoch
        if fetch_offset >= leader_end:
            self.caught_up_ms = now_ms
        elif self._last_fetch is not None and fetch_offset >= self._last_fetch.leader_end:
            # Under steady load the leader is always a little ahead. A follower that now has what the leader had at the
            # previous fetch keeps up, with one round trip of delay.
            self.caught_up_ms = self._last_fetch.at_ms
        if self._last_fetch is None or fetch_offset > self.durable_end or fetch_offset >= leader_end:
            self.advanced_ms = now_ms
        # The latest offset counts, as in Kafka, not the largest. A log begins anew only with a new registration or
        # leader epoch; if one ever did otherwise, the largest would count records that are gone. A fetch that arrives
        # after a later one, over an earlier connection, delays the high watermark until the next fetch.
        self.durable_end = fetch_offset
        self._last_fetch = _LastFetch(at_ms=now_ms, leader_end=leader_end)

    def is_caught_up(self, *, leader_end: Offset, now_ms: int, lag_time_max_ms: int) -> bool:
        """True if the follower lacks nothing, or nothing older than `lag_time_max_ms`."""
        if self.durable_end >= leader_end:
            return True
        return self.caught_up_ms is not None and now_ms - self.caught_up_ms <= lag_time_max_ms

    @property
    def behind_since_ms(self) -> int:
        """Time from which on it may lack records, as far as its leader knows."""
        return self.out_of_isr_since_ms if self.caught_up_ms is None else self.caught_up_ms

    def joined_isr(self, now_ms: int) -> None:
        """Give it a full lag time from now on: it joined at the high watermark, not at the log end."""
        self.caught_up_ms = now_ms if self.caught_up_ms is None else max(self.caught_up_ms, now_ms)

    def left_isr(self) -> None:
        """Forget its progress: it must catch up again before the leader waits for it, since its broker may be dead."""
        if self.caught_up_ms is not None:
            self.out_of_isr_since_ms = self.caught_up_ms
        self.caught_up_ms = None
        self._last_fetch = None

    def state(self, *, in_isr: bool) -> FollowerState:
        """Return the state of the follower as it is now."""
        return FollowerState(
            broker_id=self.broker_id,
            broker_epoch=self.broker_epoch,
            durable_end=self.durable_end,
            caught_up_ms=self.caught_up_ms,
            behind_since_ms=self.behind_since_ms,
            in_isr=in_isr,
        )
