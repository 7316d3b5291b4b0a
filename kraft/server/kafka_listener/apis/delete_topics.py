"""DeleteTopics: delete topics by name, or since version 6 by id (KIP-516)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.model import topics as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.timeouts import forward_timeout_ms
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

Handle = Callable[[values.DeleteTopicsRequest], Awaitable[values.TopicResults]]

_STATES_FROM: Final = 6
"""First version in which a request may name topics by id."""

_DISABLED_FROM: Final = 3
"""First version whose clients know TOPIC_DELETION_DISABLED."""


class DeleteTopicsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: DeleteTopicsRequest, call: RequestContext) -> DeleteTopicsResponse:
        if call.version < _STATES_FROM:
            topics = tuple(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names)
        else:
            topics = request.topics
        refused = [_ambiguous(topic) for topic in topics if (topic.name is None) == (topic.topic_id == ZERO_UUID)]
        by_name = [topic for topic in topics if topic.name is not None and topic.topic_id == ZERO_UUID]
        by_id = [topic for topic in topics if topic.name is None and topic.topic_id != ZERO_UUID]
        results = await self._delete([*by_name, *by_id], request.timeout_ms) if by_name or by_id else []
        return DeleteTopicsResponse(responses=(*(_for_version(each, call.version) for each in results), *refused))

    async def _delete(self, topics: list[DeleteTopicState], timeout_ms: int) -> list[DeletableTopicResult]:
        try:
            answer = await self._handle(
                values.DeleteTopicsRequest(
                    topics=[topic.name for topic in topics if topic.name is not None],
                    topic_ids=[topic.topic_id for topic in topics if topic.name is None],
                    timeout_ms=forward_timeout_ms(timeout_ms),
                )
            )
        except Refusal as refusal:
            return [_refused(topic, refusal) for topic in topics]
        return [_result(result) for result in answer.results]


def _result(result: values.TopicResult) -> DeletableTopicResult:
    return DeletableTopicResult(
        # Only a topic that was named by an unknown id has no name.
        name=result.topic or (None if result.topic_id is not None else ""),
        topic_id=result.topic_id or ZERO_UUID,
        error_code=result.error_code,
        error_message=result.error_message or None,
    )


def _refused(topic: DeleteTopicState, refusal: Refusal) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=topic.name, topic_id=topic.topic_id, error_code=refusal.error_code, error_message=refusal.message
    )


def _ambiguous(topic: DeleteTopicState) -> DeletableTopicResult:
    problem = "a topic must be named by either its name or its id"
    return _refused(topic, Refusal(ErrorCode.INVALID_REQUEST, problem))


def _for_version(result: DeletableTopicResult, version: int) -> DeletableTopicResult:
    if version >= _DISABLED_FROM or result.error_code != ErrorCode.TOPIC_DELETION_DISABLED:
        return result
    return DeletableTopicResult(name=result.name, error_code=ErrorCode.INVALID_REQUEST)
