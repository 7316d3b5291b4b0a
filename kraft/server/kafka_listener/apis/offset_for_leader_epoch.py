"""OffsetForLeaderEpoch: look up the end offsets of leader epochs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import offset_for_leader_epoch as values
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

Handle = Callable[[values.OffsetForLeaderEpochRequest], Awaitable[values.OffsetForLeaderEpochResponse]]


class OffsetForLeaderEpochApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(
        self, request: OffsetForLeaderEpochRequest, call: RequestContext
    ) -> OffsetForLeaderEpochResponse:
        answer = await self._handle(
            values.OffsetForLeaderEpochRequest(
                partitions=[
                    values.EpochEndPartition(
                        topic=topic.topic,
                        partition=partition.partition,
                        leader_epoch=partition.leader_epoch,
                        current_leader_epoch=partition.current_leader_epoch,
                    )
                    for topic in request.topics
                    for partition in topic.partitions
                ]
            )
        )
        results = iter(answer.partitions)
        return OffsetForLeaderEpochResponse(
            topics=tuple(
                OffsetForLeaderTopicResult(
                    topic=topic.topic, partitions=tuple(_partition(next(results)) for _ in topic.partitions)
                )
                for topic in request.topics
            )
        )


def _partition(result: values.EpochEndPartitionResult) -> EpochEndOffset:
    return EpochEndOffset(
        error_code=result.error_code,
        partition=result.partition,
        leader_epoch=result.leader_epoch,
        end_offset=result.end_offset,
    )
