"""CreateTopics and DeleteTopics: decided by the active controller, answered once this broker acts on it, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.requests import CreateTopicsRequest, DeleteTopicsRequest, TopicResult, TopicResults
from kraft.server.cluster.controller_client import ControllerClient, NoController
from kraft.server.cluster.metadata_loader import MetadataLoader

LOCALLY_KNOWN_MAX_S: Final = 2.0
TIMEOUT_MAX_S: Final = 60.0


class TopicsHandler:
    def __init__(self, loader: MetadataLoader, controllers: ControllerClient, *, deletion_enabled: bool) -> None:
        self._loader = loader
        self._controllers = controllers
        self._deletion_enabled = deletion_enabled

    async def create(self, request: CreateTopicsRequest) -> TopicResults:
        names = [new_topic.topic for new_topic in request.topics]
        try:
            answer = await self._controllers.call_admin(
                lambda peer, timeout_s: peer.create_topics(request, timeout_s), _deadline_s(request.timeout_ms)
            )
        except NoController as error:
            return _all_refused(names, Refusal(ErrorCode.REQUEST_TIMED_OUT, str(error)))
        if not request.validate_only:
            await self._until_known(answer, lambda image, name: image.topic(name) is not None)
        return answer

    async def delete(self, request: DeleteTopicsRequest) -> TopicResults:
        if not self._deletion_enabled:
            disabled = "deleting topics is switched off: delete.topic.enable=false"
            return _none_deleted(request, Refusal(ErrorCode.TOPIC_DELETION_DISABLED, disabled))
        try:
            answer = await self._controllers.call_admin(
                lambda peer, timeout_s: peer.delete_topics(request, timeout_s), _deadline_s(request.timeout_ms)
            )
        except NoController as error:
            return _none_deleted(request, Refusal(ErrorCode.REQUEST_TIMED_OUT, str(error)))
        await self._until_known(answer, lambda image, name: image.topic(name) is None)
        return answer

    async def _until_known(self, answer: TopicResults, is_known: Callable[[MetadataImage, str], bool]) -> None:
        """Whoever creates or deletes a topic and then asks this broker for it is told the truth, if it can be had."""
        done = [result.topic for result in answer.results if result.error_code is ErrorCode.NONE]
        await self._loader.until(lambda image: all(is_known(image, name) for name in done), LOCALLY_KNOWN_MAX_S)


def _deadline_s(timeout_ms: int) -> float:
    return min(max(timeout_ms, 0) / 1_000, TIMEOUT_MAX_S)


def _all_refused(names: list[str], refusal: Refusal) -> TopicResults:
    return TopicResults(
        results=[
            TopicResult(topic=name, error_code=refusal.error_code, error_message=refusal.message) for name in names
        ]
    )


def _none_deleted(request: DeleteTopicsRequest, refusal: Refusal) -> TopicResults:
    by_id = _all_refused([""] * len(request.topic_ids), refusal).results
    return TopicResults(
        results=[
            *_all_refused(request.topics, refusal).results,
            *(replace(result, topic_id=topic_id) for result, topic_id in zip(by_id, request.topic_ids, strict=True)),
        ]
    )
