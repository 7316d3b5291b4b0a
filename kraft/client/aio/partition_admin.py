"""Leaders and replicas of partitions, as the admin client changes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kraft.client.aio.admin_calls import AdminClient
from kraft.model.errors import ErrorCode, Refusal, error_code
from kraft.model.ids import TopicPartition
from kraft.model.partitions import ElectionType
from kraft.rpc.calls import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS, LIST_PARTITION_REASSIGNMENTS
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.wire.schema.elect_leaders import ElectLeadersRequest, TopicPartitions
from kraft.wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)


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
    named = None if partitions is None else _by_topic(partitions)
    topics = None if named is None else tuple(TopicPartitions(topic=each, partitions=named[each]) for each in named)
    response = await admin.calls.change(
        ELECT_LEADERS,
        lambda attempt_ms: ElectLeadersRequest(
            election_type=election_type, topic_partitions=topics, timeout_ms=attempt_ms
        ),
        timeout_ms,
    )
    return {
        TopicPartition(topic.topic, each.partition_id): _refusal(each.error_code, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


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
    topics = tuple(
        ReassignableTopic(
            name=topic,
            partitions=tuple(_reassignable(each, reassignments[TopicPartition(topic, each)]) for each in numbers),
        )
        for topic, numbers in _by_topic(reassignments).items()
    )
    response = await admin.calls.change(
        ALTER_PARTITION_REASSIGNMENTS,
        lambda attempt_ms: AlterPartitionReassignmentsRequest(
            timeout_ms=attempt_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=topics,
        ),
        timeout_ms,
    )
    return {
        TopicPartition(topic.name, each.partition_index): _refusal(each.error_code, each.error_message)
        for topic in response.responses
        for each in topic.partitions
    }


async def list_partition_reassignments(
    admin: AdminClient, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: int | None = None
) -> dict[TopicPartition, OngoingPartitionReassignment]:
    """Return the reassignments in progress: of these partitions, or of the whole cluster."""
    named = None if partitions is None else _by_topic(partitions)
    topics = (
        None
        if named is None
        else tuple(ListPartitionReassignmentsTopics(name=each, partition_indexes=named[each]) for each in named)
    )
    request = ListPartitionReassignmentsRequest(topics=topics)
    found = (await admin.calls.ask(LIST_PARTITION_REASSIGNMENTS, request, timeout_ms)).topics
    return {TopicPartition(topic.name, each.partition_index): each for topic in found for each in topic.partitions}


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    return {topic: tuple(numbers) for topic, numbers in topics.items()}


def _reassignable(partition: int, replicas: Sequence[int] | None) -> ReassignablePartition:
    return ReassignablePartition(partition_index=partition, replicas=None if replicas is None else tuple(replicas))


def _refusal(code: int, message: str | None) -> Refusal | None:
    return None if code == ErrorCode.NONE else Refusal(error_code(code), message or "")
