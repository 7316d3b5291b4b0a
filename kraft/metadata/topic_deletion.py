"""The decision to delete topics, by name or by id. Source: KIP-516 (ids)."""

from __future__ import annotations

from collections import Counter

from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage, TopicImage
from kraft.metadata.records import MetadataRecord, TopicDeleted
from kraft.metadata.topic_decisions import check_named_once
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


def delete_topics(image: MetadataImage, request: DeleteTopicsRequest) -> Decision[DeleteTopicsResponse]:
    """Delete each topic on its own. One that the request names twice, by name or by id, is not deleted.

    Results of topics by name come first, then those by id, then those that are named in both ways or in none.
    """
    ordered = sorted(request.topics, key=lambda state: 2 if _is_ambiguous(state) else state.name is None)
    found = [(state, _topic(image, state)) for state in ordered]
    meant = Counter(_meant(state, topic) for state, topic in found)
    records: list[MetadataRecord] = []
    results = []
    for state, topic in found:
        try:
            deleted = _to_delete(state, topic, meant)
        except Refusal as refusal:
            results.append(refused_deletion(state, refusal, topic))
            continue
        records.append(TopicDeleted(topic_id=deleted.topic_id))
        results.append(
            DeletableTopicResult(
                name=deleted.topic, topic_id=deleted.topic_id, error_code=ErrorCode.NONE, error_message=None
            )
        )
    return Decision(records=records, response=DeleteTopicsResponse(responses=tuple(results)))


def refused_deletion(
    state: DeleteTopicState, refusal: Refusal, topic: TopicImage | None = None
) -> DeletableTopicResult:
    """Return the result for a topic as the request names it; with `topic`, one that is named by id has its name."""
    return DeletableTopicResult(
        name=state.name if topic is None else topic.topic,
        topic_id=state.topic_id,
        error_code=refusal.error_code,
        error_message=refusal.message,
    )


def _is_ambiguous(state: DeleteTopicState) -> bool:
    return (state.name is None) == (state.topic_id == ZERO_UUID)


def _topic(image: MetadataImage, state: DeleteTopicState) -> TopicImage | None:
    if _is_ambiguous(state):
        return None
    return image.topic_by_id(state.topic_id) if state.name is None else image.topic(state.name)


def _meant(state: DeleteTopicState, topic: TopicImage | None) -> str:
    """Return the name of the topic that is meant; empty for one that is named by an unknown id, or ambiguously."""
    if topic is not None:
        return topic.topic
    return "" if _is_ambiguous(state) else state.name or ""


def _to_delete(state: DeleteTopicState, topic: TopicImage | None, meant: Counter[str]) -> TopicImage:
    """Return the topic to delete. Raises Refusal."""
    if _is_ambiguous(state):
        raise Refusal(ErrorCode.INVALID_REQUEST, "a topic must be named by either its name or its id")
    if name := _meant(state, topic):
        check_named_once(name, meant)
    if topic is not None:
        return topic
    raise no_such_topic(state)


def no_such_topic(state: DeleteTopicState) -> Refusal:
    if state.name is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {state.topic_id}")
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{state.name[:300]}'")
