"""CreatePartitions: add partitions to a topic (KIP-195)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import partitions as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.topics import TopicResults
from kraft.server.kafka_listener.apis.timeouts import forward_timeout_ms
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

Handle = Callable[[values.CreatePartitionsRequest], Awaitable[TopicResults]]


class CreatePartitionsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: CreatePartitionsRequest, call: RequestContext) -> CreatePartitionsResponse:
        try:
            answer = await self._handle(
                values.CreatePartitionsRequest(
                    topics=[_wanted(topic) for topic in request.topics],
                    timeout_ms=forward_timeout_ms(request.timeout_ms),
                    validate_only=request.validate_only,
                )
            )
        except Refusal as refusal:
            results = [_result(topic.name, refusal.error_code, refusal.message) for topic in request.topics]
        else:
            results = [_result(each.topic, each.error_code, each.error_message) for each in answer.results]
        # A topic that is in the request twice is refused twice but has one result.
        return CreatePartitionsResponse(results=tuple({result.name: result for result in results}.values()))


def _wanted(topic: CreatePartitionsTopic) -> values.NewPartitions:
    return values.NewPartitions(
        topic=topic.name,
        count=topic.count,
        assignments=[
            values.ReplicaAssignment(replicas=list(assignment.broker_ids)) for assignment in topic.assignments or ()
        ],
    )


def _result(name: str, error_code: ErrorCode, error_message: str) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error_code, error_message=error_message or None)
