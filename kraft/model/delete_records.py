"""DeleteRecords: a log begins later."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.errors import ErrorCode

HIGH_WATERMARK = -1
"""In DeleteRecords: everything that is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartition:
    """Records below `before_offset` are to go; HIGH_WATERMARK stands for the high watermark."""

    topic: str
    partition: int
    before_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequest:
    """`timeout_ms` bounds the wait for the replicas."""

    timeout_ms: int
    partitions: list[DeleteRecordsPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartitionResult:
    """`low_watermark`: no in-sync replica keeps a record below it; -1 on an error."""

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    low_watermark: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponse:
    """One result a partition, in the request's order."""

    partitions: list[DeleteRecordsPartitionResult]
