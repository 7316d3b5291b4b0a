"""OffsetForLeaderEpoch: where leader epochs end."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndPartition:
    """Where does `leader_epoch` end? `current_leader_epoch` as in a fetch."""

    topic: str
    partition: int
    leader_epoch: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    partitions: list[EpochEndPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndPartitionResult:
    """The largest epoch up to the one asked for, and the offset behind its last record; -1 when there is none."""

    topic: str
    partition: int
    error_code: ErrorCode
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    """One result a partition, in the request's order."""

    partitions: list[EpochEndPartitionResult]
