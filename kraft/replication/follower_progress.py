"""How far one follower is, as its leader knows it from the follower's fetches."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, Offset

UNKNOWN_OFFSET = Offset(-1)
"""Of a follower that has not fetched yet. Being below every offset, it holds the high watermark where it is."""


@dataclass(slots=True, kw_only=True)
class _Fetch:
    """When a follower fetched, and where the leader's log ended then."""

    at_ms: int
    leader_end: Offset


@dataclass(slots=True, kw_only=True)
class FollowerProgress:
    """`caught_up_ms` is the latest time t such that the follower has everything the leader had at t; None: never.

    Invariant: everything below `durable_end` was on the follower's disk when it sent its last fetch.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch = UNKNOWN_BROKER_EPOCH
    durable_end: Offset = UNKNOWN_OFFSET
    log_start: Offset = UNKNOWN_OFFSET
    """Where its log began when it sent its last fetch."""
    caught_up_ms: int | None = None
    _last_fetch: _Fetch | None = None

    @property
    def last_fetch_ms(self) -> int | None:
        """When it last fetched; None: not since it left the ISR, or never."""
        return None if self._last_fetch is None else self._last_fetch.at_ms

    def fetched(self, *, broker_epoch: BrokerEpoch, fetch_offset: Offset, leader_end: Offset, now_ms: int) -> None:
        """Note a fetch from `fetch_offset`: everything below it is on the follower's disk."""
        if broker_epoch != self.broker_epoch:
            # What an earlier life of this broker had caught up with says nothing about this one.
            self._last_fetch = None
            self.broker_epoch = broker_epoch
        if fetch_offset >= leader_end:
            self.caught_up_ms = now_ms
        elif self._last_fetch is not None and fetch_offset >= self._last_fetch.leader_end:
            # Under steady load the leader is always a little ahead. That the follower has by now what the
            # leader had at the previous fetch shows that it keeps up, with one round trip of delay.
            self.caught_up_ms = self._last_fetch.at_ms
        self.durable_end = fetch_offset
        self._last_fetch = _Fetch(at_ms=now_ms, leader_end=leader_end)

    def is_caught_up(self, *, leader_end: Offset, now_ms: int, lag_time_max_ms: int) -> bool:
        """True when the follower misses nothing, or nothing older than `lag_time_max_ms`."""
        if self.durable_end >= leader_end:
            return True
        return self.caught_up_ms is not None and now_ms - self.caught_up_ms <= lag_time_max_ms

    def joined_isr(self, now_ms: int) -> None:
        """It has a full lag time from here on, since joining asks for the high watermark only, not for the log end."""
        self.caught_up_ms = now_ms if self.caught_up_ms is None else max(self.caught_up_ms, now_ms)

    def left_isr(self) -> None:
        """It has to catch up anew before the leader waits for it: a broker that died must not hold anything up."""
        self.caught_up_ms = None
        self._last_fetch = None
