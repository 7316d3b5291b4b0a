"""Leaders and replicas of partitions, as the admin client changes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kraft.client.aio.admin_calls import AdminClient
from kraft.client.cluster.any_broker import check
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import TopicPartition
from kraft.model.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    OngoingReassignment,
    PartitionName,
    PartitionResult,
    Reassignment,
)
from kraft.rpc.calls import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS, LIST_PARTITION_REASSIGNMENTS


async def elect_leaders(
    admin: AdminClient,
    election_type: ElectionType,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, Refusal | None]:
    """Elect a leader of each given partition, or of all partitions; return each partition's Refusal or None.

    A partition that needs no election has ELECTION_NOT_NEEDED; without `partitions` it is left out. An unclean
    election loses the records that the new leader does not have.
    """
    names = _names(partitions)

    def request_of(attempt_ms: int) -> ElectLeadersRequest:
        return ElectLeadersRequest(
            election_type=election_type, partitions=names, all_partitions=partitions is None, timeout_ms=attempt_ms
        )

    return _refusals((await admin.calls.change(ELECT_LEADERS, request_of, timeout_ms, _check)).results)


async def alter_partition_reassignments(
    admin: AdminClient,
    reassignments: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, Refusal | None]:
    """Start to reassign each partition to these brokers, preferred leader first; None cancels a reassignment.

    Returns each partition's Refusal or None. `list_partition_reassignments` returns those not yet complete.
    """
    wanted = [
        Reassignment(
            topic=each.topic, partition=each.partition, replicas=list(replicas or ()), cancels=replicas is None
        )
        for each, replicas in reassignments.items()
    ]

    def request_of(attempt_ms: int) -> AlterPartitionReassignmentsRequest:
        return AlterPartitionReassignmentsRequest(
            partitions=wanted,
            timeout_ms=attempt_ms,
            allow_replication_factor_change=allow_replication_factor_change,
        )

    return _refusals((await admin.calls.change(ALTER_PARTITION_REASSIGNMENTS, request_of, timeout_ms, _check)).results)


async def list_partition_reassignments(
    admin: AdminClient, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
) -> dict[TopicPartition, OngoingReassignment]:
    """Return the reassignments in progress: of these partitions, or of the whole cluster."""
    request = ListPartitionReassignmentsRequest(partitions=_names(partitions), all_partitions=partitions is None)
    found = (await admin.calls.ask(LIST_PARTITION_REASSIGNMENTS, request, timeout_ms)).partitions
    return {TopicPartition(each.topic, each.partition): each for each in found}


def _check(response: ElectLeadersResponse | AlterPartitionReassignmentsResponse) -> None:
    check(response.error_code, response.error_message)


def _names(partitions: Iterable[TopicPartition] | None) -> list[PartitionName]:
    return [PartitionName(topic=each.topic, partition=each.partition) for each in partitions or ()]


def _refusals(results: list[PartitionResult]) -> dict[TopicPartition, Refusal | None]:
    return {
        TopicPartition(result.topic, result.partition): None
        if result.error_code is ErrorCode.NONE
        else Refusal(result.error_code, result.error_message)
        for result in results
    }
