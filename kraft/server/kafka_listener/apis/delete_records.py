"""DeleteRecords: delete all records below an offset (KIP-107)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import delete_records as values
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

Handle = Callable[[values.DeleteRecordsRequest], Awaitable[values.DeleteRecordsResponse]]


class DeleteRecordsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: DeleteRecordsRequest, call: RequestContext) -> DeleteRecordsResponse:
        answer = await self._handle(
            values.DeleteRecordsRequest(
                timeout_ms=request.timeout_ms,
                partitions=[
                    values.DeleteRecordsPartition(
                        topic=topic.name, partition=partition.partition_index, before_offset=partition.offset
                    )
                    for topic in request.topics
                    for partition in topic.partitions
                ],
            )
        )
        results = iter(answer.partitions)
        return DeleteRecordsResponse(
            topics=tuple(
                DeleteRecordsTopicResult(
                    name=topic.name, partitions=tuple(_partition(next(results)) for _ in topic.partitions)
                )
                for topic in request.topics
            )
        )


def _partition(result: values.DeleteRecordsPartitionResult) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=result.partition, low_watermark=result.low_watermark, error_code=result.error_code
    )
