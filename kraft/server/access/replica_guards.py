"""Guards of the APIs about the replicas of partitions."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from kraft.model.access import Operation, ResourceType
from kraft.model.awaited_replicas import DescribeAwaitedReplicasRequest, DescribeAwaitedReplicasResponse
from kraft.model.errors import Refusal
from kraft.server.access.asker import Asker
from kraft.server.access.guard import Proceed, asked, part_by_part, topic_needs
from kraft.server.handlers.delete_records import UNKNOWN_LOW_WATERMARK
from kraft.wire.schema.delete_records import DeleteRecordsPartitionResult, DeleteRecordsTopicResult
from kraft.wire.schema.describe_producers import PartitionResponse, TopicResponse
from kraft.wire.schema.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopicResponse
from kraft.wire.schema.offset_for_leader_epoch import EpochEndOffset, OffsetForLeaderTopicResult

_TOPIC: Final = ResourceType.TOPIC


def _named(topic: Any) -> str:
    return str(topic.name)


def _without_offsets(topic: Any, refusal: Refusal) -> ListOffsetsTopicResponse:
    partitions = (
        ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=refusal.error_code)
        for each in topic.partitions
    )
    return ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions))


list_offsets: Final = part_by_part(
    topic_needs(Operation.DESCRIBE), parts="topics", name=_named, refused=_without_offsets, answers="topics"
)


def _without_ends(topic: Any, refusal: Refusal) -> OffsetForLeaderTopicResult:
    partitions = (EpochEndOffset(partition=each.partition, error_code=refusal.error_code) for each in topic.partitions)
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(partitions))


_ends_of_epochs: Final = part_by_part(
    topic_needs(Operation.DESCRIBE),
    parts="topics",
    name=lambda topic: str(topic.topic),
    refused=_without_ends,
    answers="topics",
)


async def offset_for_leader_epoch(asker: Asker, request: Any, proceed: Proceed) -> Any:
    """CLUSTER_ACTION is for every topic, or DESCRIBE on each."""
    if asker.may_on_cluster(Operation.CLUSTER_ACTION):
        return await proceed(request)
    return await _ends_of_epochs(asker, request, proceed)


def _not_deleted(topic: Any, refusal: Refusal) -> DeleteRecordsTopicResult:
    partitions = (
        DeleteRecordsPartitionResult(
            partition_index=each.partition_index, low_watermark=UNKNOWN_LOW_WATERMARK, error_code=refusal.error_code
        )
        for each in topic.partitions
    )
    return DeleteRecordsTopicResult(name=topic.name, partitions=tuple(partitions))


delete_records: Final = part_by_part(
    topic_needs(Operation.DELETE), parts="topics", name=_named, refused=_not_deleted, answers="topics"
)


def _without_producers(topic: Any, refusal: Refusal) -> TopicResponse:
    partitions = (
        PartitionResponse(
            partition_index=number,
            error_code=refusal.error_code,
            error_message=refusal.message,
            active_producers=(),
        )
        for number in topic.partition_indexes
    )
    return TopicResponse(name=topic.name, partitions=tuple(partitions))


describe_producers: Final = part_by_part(
    topic_needs(Operation.READ), parts="topics", name=_named, refused=_without_producers, answers="topics"
)


async def describe_awaited_replicas(asker: Asker, request: DescribeAwaitedReplicasRequest, proceed: Proceed) -> Any:
    """DESCRIBE on each topic. The answer has no place for an error: of others it says nothing."""
    names = {each.topic for each in request.partitions}
    _, hidden = await asked(names, lambda name: asker.may(Operation.DESCRIBE, _TOPIC, name))
    response: DescribeAwaitedReplicasResponse = await proceed(request)
    told = [replace(each, awaited="") if each.topic in hidden else each for each in response.partitions]
    return DescribeAwaitedReplicasResponse(partitions=told)
