"""DeleteRecords: raises the log start offsets of partitions."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.errors import ErrorCode

HIGH_WATERMARK = -1
"""Used in DeleteRecords for the high watermark: delete every committed record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartition:
    """Partition whose records below `before_offset` to delete; HIGH_WATERMARK is the current high watermark."""

    topic: str
    partition: int
    before_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequest:
    """Request to delete records; `timeout_ms` limits the wait for the replicas."""

    timeout_ms: int
    partitions: list[DeleteRecordsPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartitionResult:
    """Result for one partition. No in-sync replica has a record below `low_watermark`; -1 on an error."""

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    low_watermark: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponse:
    """One result per partition, in the request's order."""

    partitions: list[DeleteRecordsPartitionResult]
