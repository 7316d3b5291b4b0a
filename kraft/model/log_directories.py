"""What operators ask a broker about its log directories, as values. Source: KIP-113, KIP-827."""

from __future__ import annotations

from dataclasses import dataclass, field

from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirectoriesRequest:
    """`all_partitions` stands for every replica of the broker."""

    partitions: list[PartitionName]
    all_partitions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSize:
    """`offset_lag` counts the records that are known to be committed and are not here yet.

    A `is_future` one is the copy of a replica that moves to this directory, and lacks so many records of the replica's.
    """

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDirectory:
    """In which log directory of the broker that is asked its replica of a partition is to be."""

    topic: str
    partition: int
    directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReplicaLogDirectoriesRequest:
    replicas: list[ReplicaDirectory]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDirectoryResult:
    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectoryDescription:
    """`replicas` by topic and partition. A directory that has failed tells of none; -1 stands for what is not known."""

    directory: str
    error_code: ErrorCode = ErrorCode.NONE
    total_bytes: int = -1
    usable_bytes: int = -1
    replicas: list[ReplicaSize] = field(default_factory=list)
