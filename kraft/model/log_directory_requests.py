"""What operators ask a broker about its log directories, as values. Source: KIP-113, KIP-827."""

from __future__ import annotations

from dataclasses import dataclass, field

from kraft.model.errors import ErrorCode
from kraft.model.partition_requests import PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirectoriesRequest:
    """`all_partitions` stands for every replica of the broker."""

    partitions: list[PartitionName]
    all_partitions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSize:
    """`offset_lag` counts the records that are known to be committed and are not here yet."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectoryDescription:
    """`replicas` by topic and partition. A directory that has failed tells of none; -1 stands for what is not known."""

    directory: str
    error_code: ErrorCode = ErrorCode.NONE
    total_bytes: int = -1
    usable_bytes: int = -1
    replicas: list[ReplicaSize] = field(default_factory=list)
