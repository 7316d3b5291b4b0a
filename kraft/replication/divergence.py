"""Where two logs part, found by leader epochs alone.

A high watermark cannot say it: it reaches a follower late, so that a log cut back to it may lose committed
records (KIP-101) or keep ones that the new leader never had (KIP-279). A leader epoch can, because an epoch has
one leader, and so one sequence of records: two logs agree up to the smaller of their ends of the last epoch that
both know. The follower names its last epoch with every fetch, the leader answers where its own log left that
epoch, the follower cuts back and asks again, until they agree (KIP-595).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from kraft.model.replica_fetch import ReplicaFetchPartition


class EpochEnds(Protocol):
    """What a log knows about the leader epochs of its records."""

    @property
    def log_start_offset(self) -> int:
        """Of the first record that is kept."""

    @property
    def log_end_offset(self) -> int:
        """Of the record that will be appended next."""

    def epoch_at(self, offset: Offset, /) -> int:
        """In which the record at `offset` was written; -1 when that is not known."""

    def end_offset_for_epoch(self, epoch: LeaderEpoch, /) -> tuple[int, int]:
        """The largest known epoch that is not above `epoch`, and the offset at which it ends.

        An epoch ends where the next one begins, the latest one at the log end. For an epoch above or below all
        that are known the answer may also be -1 and any offset.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergingEpoch:
    """The leader's log has records of `epoch` up to `end_offset`, and nothing of any later epoch below it."""

    epoch: LeaderEpoch
    end_offset: Offset


def check_follower_fetch(
    log: EpochEnds, leader_epoch: LeaderEpoch, fetch: ReplicaFetchPartition
) -> DivergingEpoch | None:
    """The leader's side: None when the follower's log is a prefix of `log`, so that records may be sent.

    Raises Refusal FENCED_LEADER_EPOCH for a follower of an earlier epoch, UNKNOWN_LEADER_EPOCH for one that has
    heard of a later one, OFFSET_OUT_OF_RANGE for an offset that the log does not have. Source: KIP-320, KIP-595.
    """
    _check_epoch(leader_epoch, fetch.current_leader_epoch)
    if fetch.fetch_offset < log.log_start_offset:
        raise _out_of_range(log, fetch.fetch_offset)
    if fetch.last_fetched_epoch >= 0:
        end = _end_of_epoch(log, LeaderEpoch(fetch.last_fetched_epoch))
        if end.epoch < fetch.last_fetched_epoch or end.end_offset < fetch.fetch_offset:
            return end
    if fetch.fetch_offset > log.log_end_offset:
        raise _out_of_range(log, fetch.fetch_offset)
    return None


def last_epoch_below(log: EpochEnds, offset: Offset) -> LeaderEpoch:
    """Of the record before `offset`; -1 when the log keeps none.

    Not the latest epoch that the log has heard of: an epoch may have begun here and ended without a record, and
    no other log would know it.
    """
    return LeaderEpoch(log.epoch_at(Offset(offset - 1))) if offset > log.log_start_offset else NO_LEADER_EPOCH


def truncation_offset(log: EpochEnds, diverging: DivergingEpoch) -> Offset:
    """The follower's side: up to here its records may be the leader's, from here on they are not.

    May lie below the log's start, when nothing that it keeps is the leader's.
    """
    local_end = _end_of_epoch(log, diverging.epoch).end_offset
    return Offset(min(diverging.end_offset, local_end))


def _end_of_epoch(log: EpochEnds, epoch: LeaderEpoch) -> DivergingEpoch:
    last_epoch = last_epoch_below(log, Offset(log.log_end_offset))
    if 0 <= last_epoch <= epoch:
        return DivergingEpoch(epoch=last_epoch, end_offset=Offset(log.log_end_offset))
    known_epoch, end_offset = log.end_offset_for_epoch(epoch)
    if known_epoch < 0:
        # Every record that is left has a later epoch, so what this one wrote ended at or before the log's start.
        return DivergingEpoch(epoch=epoch, end_offset=Offset(log.log_start_offset))
    return DivergingEpoch(epoch=LeaderEpoch(known_epoch), end_offset=Offset(end_offset))


def _check_epoch(leader_epoch: LeaderEpoch, asked_epoch: int) -> None:
    if asked_epoch < leader_epoch:
        raise Refusal(
            ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {asked_epoch} has ended, the current one is {leader_epoch}"
        )
    if asked_epoch > leader_epoch:
        raise Refusal(
            ErrorCode.UNKNOWN_LEADER_EPOCH, f"leader epoch {asked_epoch} is not known here yet, only {leader_epoch}"
        )


def _out_of_range(log: EpochEnds, fetch_offset: int) -> Refusal:
    return Refusal(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"offset {fetch_offset} is outside the log, which has {log.log_start_offset} to {log.log_end_offset}",
    )
