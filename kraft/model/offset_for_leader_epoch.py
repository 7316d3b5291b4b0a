"""OffsetForLeaderEpoch: looks up the end offsets of leader epochs."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode


class EpochEndPartition(Struct, frozen=True, kw_only=True):
    """Leader epoch whose end offset to look up; `current_leader_epoch` is as in a fetch."""

    topic: str
    partition: int
    leader_epoch: int
    current_leader_epoch: int = -1


class OffsetForLeaderEpochRequest(Struct, frozen=True, kw_only=True):
    partitions: list[EpochEndPartition]


class EpochEndPartitionResult(Struct, frozen=True, kw_only=True):
    """Largest leader epoch up to the requested one, and the offset after its last record; -1 if there is none."""

    topic: str
    partition: int
    error_code: ErrorCode
    leader_epoch: int = -1
    end_offset: int = -1


class OffsetForLeaderEpochResponse(Struct, frozen=True, kw_only=True):
    """One result per partition, in the request's order."""

    partitions: list[EpochEndPartitionResult]
