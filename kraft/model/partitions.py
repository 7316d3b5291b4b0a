"""Requests of operators about partitions: elect leaders, reassign replicas.

Lists of results are in the order of the request, each result with its own error.
Source: KIP-460 (ElectLeaders), KIP-455 (reassignments), KIP-860.
"""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct, field

from kraft.model.errors import ErrorCode


class ElectionType(IntEnum):
    """Kind of election. The numbers are Kafka's."""

    PREFERRED = 0
    """Makes the first replica the leader, if it is in sync and another one leads."""
    UNCLEAN = 1
    """Gives a partition without a leader any replica in service; records that only others had are lost."""


# --- elections -----------------------------------------------------------------------------------------------


class PartitionName(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int


class ElectLeadersRequest(Struct, frozen=True, kw_only=True):
    """Request to elect leaders of `partitions`; with `all_partitions`, of every partition of the cluster."""

    election_type: ElectionType
    partitions: list[PartitionName]
    all_partitions: bool = False
    timeout_ms: int


class PartitionResult(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""


class ElectLeadersResponse(Struct, frozen=True, kw_only=True):
    """One result per partition; with `all_partitions`, those that need no election are left out.

    `error_code` is that of the whole request.
    """

    results: list[PartitionResult]
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


# --- reassignment --------------------------------------------------------------------------------------------


class Reassignment(Struct, frozen=True, kw_only=True):
    """New replicas of a partition. With `cancels`, and no `replicas`, the reassignment under way is cancelled."""

    topic: str
    partition: int
    replicas: list[int] = field(default_factory=list)
    cancels: bool = False


class AlterPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True):
    partitions: list[Reassignment]
    timeout_ms: int
    allow_replication_factor_change: bool = True


class AlterPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True):
    """One result per partition; `error_code` is that of the whole request."""

    results: list[PartitionResult]
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class ListPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True):
    """Request for the reassignments under way of `partitions`; with `all_partitions`, of every partition."""

    partitions: list[PartitionName]
    all_partitions: bool = False


class OngoingReassignment(Struct, frozen=True, kw_only=True):
    """Reassignment under way. `replicas` are all current ones, including those being added and removed."""

    topic: str
    partition: int
    replicas: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]


class ListPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True):
    """Reassignments under way, by topic and partition."""

    partitions: list[OngoingReassignment]
