"""DeleteRecords: raises the log start offsets of partitions."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode

HIGH_WATERMARK = -1
"""Used in DeleteRecords for the high watermark: delete every committed record."""


class DeleteRecordsPartition(Struct, frozen=True, kw_only=True):
    """Partition whose records below `before_offset` to delete; HIGH_WATERMARK is the current high watermark."""

    topic: str
    partition: int
    before_offset: int


class DeleteRecordsRequest(Struct, frozen=True, kw_only=True):
    """Request to delete records; `timeout_ms` limits the wait for the replicas."""

    timeout_ms: int
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsPartitionResult(Struct, frozen=True, kw_only=True):
    """Result for one partition. No in-sync replica has a record below `low_watermark`; -1 on an error."""

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    low_watermark: int = -1


class DeleteRecordsResponse(Struct, frozen=True, kw_only=True):
    """One result per partition, in the request's order."""

    partitions: list[DeleteRecordsPartitionResult]
