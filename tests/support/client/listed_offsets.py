"""ListOffsets, as a broker of the fake cluster answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.model.errors import ErrorCode
from kraft.model.list_offsets import LATEST_TIMESTAMP, READ_COMMITTED
from kraft.wire.schema.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeCluster


def listed_offsets(cluster: FakeCluster, broker_id: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
    def found(topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        number = asked.partition_index
        if topic not in cluster.topics:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return ListOffsetsPartitionResponse(partition_index=number, error_code=code)
        partition = cluster.partition(topic, number)
        if (code := partition.objection(broker_id, asked.current_leader_epoch)) is not ErrorCode.NONE:
            return ListOffsetsPartitionResponse(partition_index=number, error_code=code)
        offset, timestamp_ms = partition.find(asked.timestamp)
        if request.isolation_level == READ_COMMITTED and asked.timestamp == LATEST_TIMESTAMP:
            offset = partition.last_stable_offset
        return ListOffsetsPartitionResponse(
            partition_index=number,
            error_code=code,
            offset=offset,
            timestamp=timestamp_ms,
            leader_epoch=partition.leader_epoch,
        )

    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name, partitions=tuple(found(topic.name, each) for each in topic.partitions)
            )
            for topic in request.topics
        )
    )
