"""ListOffsets: look up the first and last offsets of partitions, and offsets by timestamp."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from kraft.model import list_offsets as values
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

READ_COMMITTED: Final = 1
"""Isolation level of a consumer of committed records."""

Handle = Callable[[values.ListOffsetsRequest], Awaitable[values.ListOffsetsResponse]]

_SPECIAL_FROM: Final[Mapping[int, int]] = {
    values.MAX_TIMESTAMP: 7,
    values.EARLIEST_LOCAL_TIMESTAMP: 8,
    values.LATEST_TIERED_TIMESTAMP: 9,
    values.EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""First version that defines each special timestamp: KIP-734, KIP-405, KIP-1005, KIP-1023."""


class ListOffsetsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: ListOffsetsRequest, call: RequestContext) -> ListOffsetsResponse:
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
                    if _is_known(partition, call.version)
                ],
                reads_committed=request.isolation_level == READ_COMMITTED,
            )
        )
        results = iter(answer.partitions)
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(_partition(each, results, call.version) for each in topic.partitions),
                )
                for topic in request.topics
            )
        )


def _is_known(partition: ListOffsetsPartition, version: int) -> bool:
    return version >= _SPECIAL_FROM.get(partition.timestamp, 0)


def _partition(
    asked: ListOffsetsPartition, results: Iterator[values.ListOffsetsPartitionResult], version: int
) -> ListOffsetsPartitionResponse:
    if not _is_known(asked, version):
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=ErrorCode.UNSUPPORTED_VERSION
        )
    result = next(results)
    return ListOffsetsPartitionResponse(
        partition_index=result.partition,
        error_code=result.error_code,
        timestamp=result.timestamp_ms,
        offset=result.offset,
        # The epoch of the record found; -1 if none was found.
        leader_epoch=result.leader_epoch if result.offset >= 0 else -1,
    )
