"""AlterPartitionReassignments: reassign a partition's replicas; null cancels a reassignment (KIP-455, KIP-860)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import partitions as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.timeouts import forward_timeout_ms
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

Handle = Callable[[values.AlterPartitionReassignmentsRequest], Awaitable[values.AlterPartitionReassignmentsResponse]]


class AlterPartitionReassignmentsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(
        self, request: AlterPartitionReassignmentsRequest, call: RequestContext
    ) -> AlterPartitionReassignmentsResponse:
        try:
            answer = await self._handle(_wanted(request))
        except Refusal as refusal:
            return _refused(request, refusal.error_code, refusal.message)
        if answer.error_code is not ErrorCode.NONE:
            return _refused(request, answer.error_code, answer.error_message)
        results = iter(answer.results)
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=ErrorCode.NONE,
            error_message=None,
            responses=tuple(
                ReassignableTopicResponse(
                    name=topic.name, partitions=tuple(_partition(next(results)) for _ in topic.partitions)
                )
                for topic in request.topics
            ),
        )


def _wanted(request: AlterPartitionReassignmentsRequest) -> values.AlterPartitionReassignmentsRequest:
    return values.AlterPartitionReassignmentsRequest(
        partitions=[
            values.Reassignment(
                topic=topic.name,
                partition=partition.partition_index,
                replicas=list(partition.replicas or ()),
                cancels=partition.replicas is None,
            )
            for topic in request.topics
            for partition in topic.partitions
        ],
        timeout_ms=forward_timeout_ms(request.timeout_ms),
        allow_replication_factor_change=request.allow_replication_factor_change,
    )


def _partition(result: values.PartitionResult) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=result.partition,
        error_code=result.error_code,
        error_message=result.error_message or None,
    )


def _refused(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=code,
        error_message=message,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=code, error_message=message
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
