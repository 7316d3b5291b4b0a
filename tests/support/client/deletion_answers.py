"""DeleteRecords, as a broker of the fake cluster answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.model.delete_records import HIGH_WATERMARK
from kraft.model.errors import ErrorCode
from kraft.wire.schema.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeCluster


def deleted_records(cluster: FakeCluster, broker_id: int, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete the records below the offsets from partitions that the broker leads."""
    topics = (
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(_deleted(cluster, broker_id, topic.name, each) for each in topic.partitions),
        )
        for topic in request.topics
    )
    return DeleteRecordsResponse(topics=tuple(topics))


def _deleted(
    cluster: FakeCluster, broker_id: int, topic: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    if topic not in cluster.topics:
        return DeleteRecordsPartitionResult(
            partition_index=asked.partition_index, low_watermark=-1, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    partition = cluster.partition(topic, asked.partition_index)
    code = ErrorCode.NONE
    wanted = partition.end_offset if asked.offset == HIGH_WATERMARK else asked.offset
    if partition.leader_id != broker_id:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif wanted > partition.end_offset:
        code = ErrorCode.OFFSET_OUT_OF_RANGE
    else:
        partition.log_start_offset = max(partition.log_start_offset, wanted)
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index,
        low_watermark=partition.log_start_offset if code is ErrorCode.NONE else -1,
        error_code=code,
    )
