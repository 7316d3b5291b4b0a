"""OffsetForLeaderEpoch: looks up the end offsets of leader epochs."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndPartition:
    """Leader epoch whose end offset to look up; `current_leader_epoch` is as in a fetch."""

    topic: str
    partition: int
    leader_epoch: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    partitions: list[EpochEndPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndPartitionResult:
    """Largest leader epoch up to the requested one, and the offset after its last record; -1 if there is none."""

    topic: str
    partition: int
    error_code: ErrorCode
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    """One result per partition, in the request's order."""

    partitions: list[EpochEndPartitionResult]
