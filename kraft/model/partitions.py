"""What operators ask about partitions and their replicas: more of them, other leaders, other brokers.

Lists of results are in the order of the request, one a part of it, each with its own error.
Source: KIP-195 (CreatePartitions), KIP-460 (ElectLeaders), KIP-455 (reassignments), KIP-860.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from kraft.model.errors import ErrorCode


class ElectionType(IntEnum):
    """The numbers are Kafka's."""

    PREFERRED = 0
    """The first replica leads, where it is in sync and somebody else leads."""
    UNCLEAN = 1
    """Where nobody leads, any replica that is there does: what only the others had is lost."""


# --- more partitions -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAssignment:
    """The brokers of one partition, preferred leader first."""

    replicas: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """`count` is how many the topic is to have in all; `assignments` are of the new ones, none: where there is room."""

    topic: str
    count: int
    assignments: list[ReplicaAssignment] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequest:
    topics: list[NewPartitions]
    timeout_ms: int
    validate_only: bool = False


# --- elections -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionName:
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest:
    """`all_partitions` stands for every partition of the cluster."""

    election_type: ElectionType
    partitions: list[PartitionName]
    all_partitions: bool = False
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse:
    """Asked for all partitions, those that need no election are left out. `error_code` is of the request as a whole."""

    results: list[PartitionResult]
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


# --- reassignment --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """`cancels`: back to where the partition was before the reassignment under way; then without `replicas`."""

    topic: str
    partition: int
    replicas: list[int] = field(default_factory=list)
    cancels: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest:
    partitions: list[Reassignment]
    timeout_ms: int
    allow_replication_factor_change: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
    """`error_code` is of the request as a whole."""

    results: list[PartitionResult]
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsRequest:
    """Without `all_partitions`, only those of `partitions` that are being reassigned are told."""

    partitions: list[PartitionName]
    all_partitions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingReassignment:
    """`replicas` are all that the partition has meanwhile, those to be added and to be removed included."""

    topic: str
    partition: int
    replicas: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponse:
    """By topic and partition."""

    partitions: list[OngoingReassignment]
