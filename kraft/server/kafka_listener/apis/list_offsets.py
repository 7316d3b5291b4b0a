"""ListOffsets: the ends of partitions, and what stands at a point in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import requests as values
from kraft.server.kafka_listener.requests import Call
from kraft.wire.schema.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

Handle = Callable[[values.ListOffsetsRequest], Awaitable[values.ListOffsetsResponse]]


class ListOffsetsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
        answer = await self._handle(
            values.ListOffsetsRequest(
                partitions=[
                    values.ListOffsetsPartition(
                        topic=topic.name,
                        partition=partition.partition_index,
                        timestamp_ms=partition.timestamp,
                        current_leader_epoch=partition.current_leader_epoch,
                    )
                    for topic in request.topics
                    for partition in topic.partitions
                ]
            )
        )
        results = iter(answer.partitions)
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name, partitions=tuple(_partition(next(results)) for _ in topic.partitions)
                )
                for topic in request.topics
            )
        )


def _partition(result: values.ListOffsetsPartitionResult) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=result.partition,
        error_code=result.error_code,
        timestamp=result.timestamp_ms,
        offset=result.offset,
        leader_epoch=result.leader_epoch,
    )
