"""State of the metadata quorum for DescribeQuorum: its voters, and the brokers that follow the metadata.

DescribeQuorum uses Kafka's words, offset and epoch, for index and term: see kraft/quorum/port.py.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.metadata.caught_up_times import CaughtUpTimes
from kraft.model.describe_quorum import QuorumDescription, QuorumMember
from kraft.model.ids import BrokerId
from kraft.quorum.port import QuorumStatus, VoterStatus
from kraft.runtime.clock import Clock

OBSERVER_SILENCE_MAX_MS: Final = 300_000
"""A broker that is silent for longer is no longer an observer; the same limit as Kafka's."""


class _Observer(Struct, frozen=True, kw_only=True):
    """A broker that follows the metadata, with the state that its last heartbeat reported."""

    metadata_index: int
    heartbeat_ms: int


class QuorumView:
    """View of the quorum's leader during one term, until `reset`.

    Call `update` often: the times at which members caught up are as exact as its interval.
    """

    def __init__(self, cluster_id: str, clock: Clock) -> None:
        self._cluster_id = cluster_id
        self._clock = clock
        self._observers: dict[BrokerId, _Observer] = {}
        self._caught_up = CaughtUpTimes()
        self._began_ms = clock.monotonic_ms()

    def reset(self) -> None:
        self._began_ms = self._clock.monotonic_ms()
        self._observers.clear()
        self._caught_up.forget_all()

    def heartbeat_received(self, broker_id: BrokerId, metadata_index: int) -> None:
        """Record a heartbeat of a broker that has applied the metadata up to this index."""
        self._observers[broker_id] = _Observer(metadata_index=metadata_index, heartbeat_ms=self._clock.monotonic_ms())

    def update(self, status: QuorumStatus, committed_index: int, registered: Container[BrokerId]) -> None:
        """Update the observers and caught-up times. `committed_index` is the index of the last entry with records."""
        now_ms = self._clock.monotonic_ms()
        self._observers = {
            broker_id: observer
            for broker_id, observer in self._observers.items()
            if broker_id in registered and now_ms - observer.heartbeat_ms <= OBSERVER_SILENCE_MAX_MS
        }
        voters = {voter.node_id for voter in status.voters}
        self._caught_up.keep_only({*voters, *self._observers})
        leader_end = _leader_end(status)
        for voter in status.voters:
            self._caught_up.observe(voter.node_id, voter.match_index, leader_end, now_ms)
        for broker_id, observer in self._observers.items():
            if broker_id not in voters:
                end = _observer_end(observer, status, committed_index)
                self._caught_up.observe(broker_id, end, status.commit_index, now_ms)

    def describe(
        self, status: QuorumStatus, committed_index: int, registered: Container[BrokerId]
    ) -> QuorumDescription:
        self.update(status, committed_index, registered)
        now_ms = self._clock.monotonic_ms()
        voters = {voter.node_id for voter in status.voters}
        return QuorumDescription(
            cluster_id=self._cluster_id,
            leader_id=-1 if status.leader_id is None else status.leader_id,
            leader_epoch=status.term,
            high_watermark=status.commit_index,
            voters=[
                replace(
                    self._member(voter.node_id, voter.match_index, voter.heard_ms_ago, status),
                    is_learner=voter.is_learner,
                    unreachable=self._is_unreachable(voter, status),
                )
                for voter in status.voters
            ],
            observers=[
                self._member(
                    broker_id, _observer_end(observer, status, committed_index), now_ms - observer.heartbeat_ms, status
                )
                for broker_id, observer in sorted(self._observers.items())
                if broker_id not in voters
            ],
        )

    def describe_without_leader(self, status: QuorumStatus) -> QuorumDescription:
        """Describe what this voter knows while it does not lead: its own end, and when it heard from the others."""
        now_ms = self._clock.wall_ms()
        return QuorumDescription(
            cluster_id=self._cluster_id,
            leader_epoch=status.term,
            high_watermark=status.commit_index,
            voters=[
                QuorumMember(
                    node_id=voter.node_id,
                    log_end_offset=voter.match_index,
                    is_learner=voter.is_learner,
                    last_fetch_ms_ago=voter.heard_ms_ago,
                    last_fetch_timestamp_ms=-1 if voter.heard_ms_ago < 0 else now_ms - voter.heard_ms_ago,
                )
                for voter in status.voters
            ],
        )

    def _is_unreachable(self, voter: VoterStatus, status: QuorumStatus) -> bool:
        # A leader that has never heard from a voter knows it only after the fetch timeout.
        led_ms = self._clock.monotonic_ms() - self._began_ms
        silent_ms = led_ms if voter.heard_ms_ago < 0 else voter.heard_ms_ago
        return voter.node_id != status.leader_id and silent_ms > status.fetch_timeout_ms

    def _member(self, node_id: int, end: int, heard_ms_ago: int, status: QuorumStatus) -> QuorumMember:
        caught_up_ms = self._caught_up.times.get(node_id)
        # Times are kept on the monotonic clock and reported on the wall clock.
        offset_ms = self._clock.wall_ms() - self._clock.monotonic_ms()
        now_ms = self._clock.monotonic_ms()
        return QuorumMember(
            node_id=node_id,
            log_end_offset=end,
            last_fetch_ms_ago=heard_ms_ago,
            lag=-1 if end < 0 else max(0, _leader_end(status) - end),
            last_fetch_timestamp_ms=-1 if heard_ms_ago < 0 else now_ms - heard_ms_ago + offset_ms,
            last_caught_up_timestamp_ms=-1 if caught_up_ms is None else caught_up_ms + offset_ms,
        )


def _leader_end(status: QuorumStatus) -> int:
    return max((voter.match_index for voter in status.voters if voter.node_id == status.leader_id), default=-1)


def _observer_end(observer: _Observer, status: QuorumStatus, committed_index: int) -> int:
    """Return the observer's end: the commit index if it has the last entry with records.

    Later entries are the quorum's own and have no records for brokers.
    """
    return status.commit_index if observer.metadata_index >= committed_index else observer.metadata_index
