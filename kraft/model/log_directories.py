"""Requests of operators about a broker's log directories, and their responses. Source: KIP-113, KIP-827."""

from __future__ import annotations

from msgspec import Struct, field

from kraft.model.errors import ErrorCode
from kraft.model.ids import LogDirectory
from kraft.model.partitions import PartitionName


class DescribeLogDirectoriesRequest(Struct, frozen=True, kw_only=True):
    """Request to describe log directories with these replicas; with `all_partitions`, every replica of the broker."""

    partitions: list[PartitionName]
    all_partitions: bool = False


class ReplicaSize(Struct, frozen=True, kw_only=True):
    """Size of a replica. `offset_lag` counts the records that are known to be committed and that it does not have yet.

    With `is_future`, it is the copy of a replica that is being moved to this directory, and `offset_lag` counts the
    records of the replica that the copy lacks.
    """

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool = False


class LogDirectoryDescription(Struct, frozen=True, kw_only=True):
    """Log directory with its replicas, by topic and partition; none if it has failed. An unknown size is -1."""

    directory: LogDirectory
    error_code: ErrorCode = ErrorCode.NONE
    total_bytes: int = -1
    usable_bytes: int = -1
    reason: str = ""
    """Why it has failed, or why appends are refused until there is more free space; empty for neither."""

    replicas: list[ReplicaSize] = field(default_factory=list)


class DescribeLogDirectoriesResponse(Struct, frozen=True, kw_only=True):
    """Directories of one broker, in the order of log.dirs; failed ones come last."""

    directories: list[LogDirectoryDescription]
