"""ListOffsets: looks up offsets by timestamp."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode

LATEST_TIMESTAMP = -1
"""Used in ListOffsets for the high watermark, or the last stable offset."""

EARLIEST_TIMESTAMP = -2
"""Used in ListOffsets for the log start offset."""

MAX_TIMESTAMP = -3
"""Used in ListOffsets for the first record with the largest timestamp."""

EARLIEST_LOCAL_TIMESTAMP = -4
"""Used in ListOffsets for the first offset on this broker's disk, which is the log start offset (KIP-405)."""

LATEST_TIERED_TIMESTAMP = -5
"""Used in ListOffsets for the last offset in tiered storage (KIP-1005); there is none, and no error."""

EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
"""Used in ListOffsets for the first offset that is not tiered yet (KIP-1023); there is none, and no error."""


class ListOffsetsPartition(Struct, frozen=True, kw_only=True):
    """Partition to search. `timestamp_ms` is one of the negative numbers above, or a time."""

    topic: str
    partition: int
    timestamp_ms: int
    current_leader_epoch: int = -1


class ListOffsetsRequest(Struct, frozen=True, kw_only=True):
    partitions: list[ListOffsetsPartition]
    reads_committed: bool = False


class ListOffsetsPartitionResult(Struct, frozen=True, kw_only=True):
    """First record at or after the requested time; offset and timestamp are -1 if there is none."""

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    offset: int = -1
    timestamp_ms: int = -1
    leader_epoch: int = -1


class ListOffsetsResponse(Struct, frozen=True, kw_only=True):
    partitions: list[ListOffsetsPartitionResult]
