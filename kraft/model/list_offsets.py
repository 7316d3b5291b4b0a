"""ListOffsets: offsets by time."""

from __future__ import annotations

from dataclasses import dataclass

from kraft.model.errors import ErrorCode

LATEST_TIMESTAMP = -1
"""In ListOffsets: the high watermark."""

EARLIEST_TIMESTAMP = -2
"""In ListOffsets: the log start offset."""

MAX_TIMESTAMP = -3
"""In ListOffsets: the first record with the largest timestamp."""

EARLIEST_LOCAL_TIMESTAMP = -4
"""In ListOffsets: the first offset on this broker's disk, which is the log start offset (KIP-405)."""

LATEST_TIERED_TIMESTAMP = -5
"""In ListOffsets: the last offset in tiered storage (KIP-1005). There is none, and no error."""

EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
"""In ListOffsets: the first offset that is still to be tiered (KIP-1023). There is none, and no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartition:
    """`timestamp_ms` is one of the negative numbers above, or a time to look up."""

    topic: str
    partition: int
    timestamp_ms: int
    current_leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest:
    partitions: list[ListOffsetsPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartitionResult:
    """The first record at or after the time asked for; offset and timestamp -1 when there is none."""

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse:
    partitions: list[ListOffsetsPartitionResult]
