"""Finds the offset where two logs diverge, by leader epochs alone.

The high watermark cannot be used: it reaches a follower late, so a log truncated to it may lose committed
records (KIP-101) or keep records that the new leader never had (KIP-279). Leader epochs can, because an epoch has
one leader, and so one sequence of records: two logs agree up to the smaller of their ends of the last epoch that
both have. The follower sends its last epoch with every fetch, the leader answers where that epoch ends in its own
log, the follower truncates and fetches again, until they agree (KIP-595).
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from kraft.model.replica_fetch import ReplicaFetchPartition


class EpochEnds(Protocol):
    """A log's offsets and the leader epochs of its records."""

    @property
    def log_start_offset(self) -> int:
        """Offset of the first record that is kept."""

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record to be appended."""

    def epoch_at(self, offset: Offset, /) -> int:
        """Return the epoch in which the record at `offset` was written; -1 if unknown."""

    def end_offset_for_epoch(self, epoch: LeaderEpoch, /) -> tuple[int, int]:
        """Return the largest known epoch that is not above `epoch`, and the offset at which it ends.

        An epoch ends where the next one begins, the latest one at the log end. For an epoch above or below all
        known epochs the result may also be -1 and any offset.
        """


class DivergingEpoch(Struct, frozen=True, kw_only=True):
    """End of an epoch in the leader's log: below `end_offset` there is no record of a later epoch."""

    epoch: LeaderEpoch
    end_offset: Offset


def check_follower_fetch(
    log: EpochEnds, leader_epoch: LeaderEpoch, fetch: ReplicaFetchPartition, empty_start_max: Offset
) -> DivergingEpoch | None:
    """Compare a follower's fetch with the leader's `log`.

    Returns None when the follower's log is a prefix of `log`, so that records may be sent. Raises Refusal
    FENCED_LEADER_EPOCH for a follower in an earlier epoch, UNKNOWN_LEADER_EPOCH for one in a later epoch,
    OFFSET_OUT_OF_RANGE for an offset outside the log. Source: KIP-320, KIP-595.

    A log that was restarted names no epoch. It may begin after records that are kept here only up to `empty_start_max`;
    above, OFFSET_OUT_OF_RANGE makes it begin again at the log start.
    """
    _check_epoch(leader_epoch, fetch.current_leader_epoch)
    if fetch.fetch_offset < log.log_start_offset:
        raise _out_of_range(log, fetch.fetch_offset)
    if fetch.last_fetched_epoch >= 0:
        end = _end_of_epoch(log, LeaderEpoch(fetch.last_fetched_epoch))
        if end.epoch < fetch.last_fetched_epoch or end.end_offset < fetch.fetch_offset:
            return end
        if fetch.fetch_offset == log.log_start_offset and _is_unknown_below_start(log, fetch.last_fetched_epoch):
            return DivergingEpoch(
                epoch=LeaderEpoch(fetch.last_fetched_epoch), end_offset=Offset(fetch.fetch_offset - 1)
            )
    if fetch.fetch_offset > log.log_end_offset:
        raise _out_of_range(log, fetch.fetch_offset)
    if fetch.last_fetched_epoch < 0 and fetch.fetch_offset > max(log.log_start_offset, empty_start_max):
        _check_has_no_epoch_below(log, fetch.fetch_offset)
    return None


def last_epoch_below(log: EpochEnds, offset: Offset) -> LeaderEpoch:
    """Return the epoch of the record before `offset`, kept or deleted; -1 when the log never had such a record.

    This is not always the latest epoch in the log's epoch cache: an epoch may have begun here and ended without a
    record, and no other log has it.
    """
    return LeaderEpoch(log.epoch_at(Offset(offset - 1)))


def truncation_offset(log: EpochEnds, diverging: DivergingEpoch) -> Offset:
    """Return the offset that the follower truncates to: its records from there on differ from the leader's.

    It may be below the log start, when no kept record agrees with the leader's log.
    """
    local_end = _end_of_epoch(log, diverging.epoch).end_offset
    return Offset(min(diverging.end_offset, local_end))


def _end_of_epoch(log: EpochEnds, epoch: LeaderEpoch) -> DivergingEpoch:
    last_epoch = last_epoch_below(log, Offset(log.log_end_offset))
    if 0 <= last_epoch <= epoch:
        return DivergingEpoch(epoch=last_epoch, end_offset=Offset(log.log_end_offset))
    known_epoch, end_offset = log.end_offset_for_epoch(epoch)
    if known_epoch < 0:
        # Every record that is left has a later epoch, so this epoch ended at or before the log start.
        return DivergingEpoch(epoch=epoch, end_offset=Offset(log.log_start_offset))
    return DivergingEpoch(epoch=LeaderEpoch(known_epoch), end_offset=Offset(end_offset))


def _is_unknown_below_start(log: EpochEnds, epoch: int) -> bool:
    """Return whether the record before the log start, deleted or never here, may be of another epoch than `epoch`.

    A log that was restarted at its log start does not know. Then a follower that ends there may have records of a
    leader that was replaced, and no fetch would ever reach them: an open transaction among them would stay open.
    """
    start = log.log_start_offset
    return log.epoch_at(Offset(start - 1)) == NO_LEADER_EPOCH and log.epoch_at(Offset(start)) != epoch


def _check_has_no_epoch_below(log: EpochEnds, start: int) -> None:
    """Raise Refusal unless the record before `start` has no epoch: then the follower's may not have one either."""
    if log.epoch_at(Offset(start - 1)) != NO_LEADER_EPOCH:
        raise Refusal(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"an empty log that begins at offset {start} lacks records that are kept from {log.log_start_offset} on",
        )


def _check_epoch(leader_epoch: LeaderEpoch, asked_epoch: int) -> None:
    if asked_epoch < leader_epoch:
        raise Refusal(
            ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {asked_epoch} has ended; the current one is {leader_epoch}"
        )
    if asked_epoch > leader_epoch:
        raise Refusal(
            ErrorCode.UNKNOWN_LEADER_EPOCH, f"leader epoch {asked_epoch} is unknown here; the latest is {leader_epoch}"
        )


def _out_of_range(log: EpochEnds, fetch_offset: int) -> Refusal:
    return Refusal(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"offset {fetch_offset} is out of range: the log has {log.log_start_offset} to {log.log_end_offset}",
    )
