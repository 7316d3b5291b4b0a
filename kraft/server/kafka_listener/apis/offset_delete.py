"""OffsetDelete: delete committed offsets of a group (KIP-496)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model.committed_offsets import DeleteOffsets, DeleteTopic, OffsetResults
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


class OffsetDeleteApi:
    def __init__(self, handle: Callable[[DeleteOffsets], Awaitable[OffsetResults]]) -> None:
        self._handle = handle

    async def __call__(self, request: OffsetDeleteRequest, call: RequestContext) -> OffsetDeleteResponse:
        topics = tuple(
            DeleteTopic(topic.name, tuple(each.partition_index for each in topic.partitions))
            for topic in request.topics
        )
        try:
            results = await self._handle(DeleteOffsets(group_id=request.group_id, topics=topics))
        except Refusal as refusal:
            return OffsetDeleteResponse(error_code=refusal.error_code, topics=())
        return OffsetDeleteResponse(
            error_code=ErrorCode.NONE,
            topics=tuple(
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        OffsetDeleteResponsePartition(partition_index=each.partition, error_code=each.error_code)
                        for each in topic.partitions
                    ),
                )
                for topic in results.topics
            ),
        )
