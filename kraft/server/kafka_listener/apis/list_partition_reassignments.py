"""ListPartitionReassignments: list the reassignments in progress (KIP-455)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import groupby

from kraft.model import partitions as values
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

Handle = Callable[[values.ListPartitionReassignmentsRequest], Awaitable[values.ListPartitionReassignmentsResponse]]


class ListPartitionReassignmentsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(
        self, request: ListPartitionReassignmentsRequest, call: RequestContext
    ) -> ListPartitionReassignmentsResponse:
        answer = await self._handle(
            values.ListPartitionReassignmentsRequest(
                partitions=[
                    values.PartitionName(topic=topic.name, partition=partition)
                    for topic in request.topics or ()
                    for partition in topic.partition_indexes
                ],
                all_partitions=request.topics is None,
            )
        )
        return ListPartitionReassignmentsResponse(
            error_code=ErrorCode.NONE,
            error_message=None,
            topics=tuple(
                OngoingTopicReassignment(name=topic, partitions=tuple(map(_partition, under_way)))
                for topic, under_way in groupby(answer.partitions, key=lambda each: each.topic)
            ),
        )


def _partition(under_way: values.OngoingReassignment) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=under_way.partition,
        replicas=tuple(under_way.replicas),
        adding_replicas=tuple(under_way.adding_replicas),
        removing_replicas=tuple(under_way.removing_replicas),
    )
