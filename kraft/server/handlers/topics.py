"""CreateTopics and DeleteTopics: forwarded to the active controller, answered once its decision is applied here."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.topics import CreateTopicsRequest, DeleteTopicsRequest, TopicResult, TopicResults
from kraft.rpc.call import Served
from kraft.rpc.calls import CREATE_TOPICS, DELETE_TOPICS
from kraft.server.handlers.forwarding import Forwarder, NoAnswer


class TopicsHandler:
    def __init__(self, forwarder: Forwarder, *, deletion_enabled: bool) -> None:
        self._forwarder = forwarder
        self._deletion_enabled = deletion_enabled

    async def create(self, request: CreateTopicsRequest) -> TopicResults:
        try:
            answer = await self._forwarder.forward(CREATE_TOPICS, request)
        except NoAnswer as refusal:
            return TopicResults(results=[_refused(new_topic.topic, refusal) for new_topic in request.topics])
        if not request.validate_only:
            await self._until_applied(answer, lambda image, name: image.topic(name) is not None)
        return answer

    async def delete(self, request: DeleteTopicsRequest) -> TopicResults:
        if not self._deletion_enabled:
            disabled = "topic deletion is disabled: set delete.topic.enable=true"
            return _none_deleted(request, Refusal(ErrorCode.TOPIC_DELETION_DISABLED, disabled))
        try:
            answer = await self._forwarder.forward(DELETE_TOPICS, request)
        except NoAnswer as refusal:
            return _none_deleted(request, refusal)
        await self._until_applied(answer, lambda image, name: image.topic(name) is None)
        return answer

    async def _until_applied(self, answer: TopicResults, is_applied: Callable[[MetadataImage, str], bool]) -> None:
        done = [result.topic for result in answer.results if result.error_code is ErrorCode.NONE]
        await self._forwarder.until(lambda image: all(is_applied(image, name) for name in done))

    def served(self) -> list[Served]:
        return [
            CREATE_TOPICS.served_by(self.create),
            DELETE_TOPICS.served_by(self.delete),
        ]


def _none_deleted(request: DeleteTopicsRequest, refusal: Refusal) -> TopicResults:
    by_name = [_refused(name, refusal) for name in request.topics]
    by_id = [_refused("", refusal, topic_id) for topic_id in request.topic_ids]
    return TopicResults(results=by_name + by_id)


def _refused(name: str, refusal: Refusal, topic_id: UUID | None = None) -> TopicResult:
    return TopicResult(topic=name, error_code=refusal.error_code, error_message=refusal.message, topic_id=topic_id)
