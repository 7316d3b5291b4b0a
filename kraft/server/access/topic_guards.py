"""Guards of the APIs for topics: what a client may not describe is as if it did not exist, but for its error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from msgspec import structs

from kraft.metadata.described_topics import DescribeTopicsRequest, DescribeTopicsResponse, TopicDescription
from kraft.metadata.image import CurrentImage, MetadataImage
from kraft.metadata.partition_creation import refused_partitions
from kraft.metadata.topic_decisions import refused_topic
from kraft.metadata.topic_deletion import no_such_topic, refused_deletion
from kraft.metadata.topic_names import INTERNAL_TOPICS
from kraft.model.access import Operation, ResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.access.asker import Asker
from kraft.server.access.guard import ASKED_AT_ONCE, Guard, Proceed, asked, part_by_part, topic_needs
from kraft.server.handlers.authorized_operations import NOT_ASKED
from kraft.server.handlers.describe_topic_partitions import PARTITIONS_MAX
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import ZERO_UUID, replace
from kraft.wire.schema.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kraft.wire.schema.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kraft.wire.schema.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kraft.wire.schema.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

_TOPIC: Final = ResourceType.TOPIC

# --- creation and deletion -------------------------------------------------------------------------------------------


async def create_topics(asker: Asker, request: CreateTopicsRequest, proceed: Proceed) -> CreateTopicsResponse:
    """CREATE on the cluster, for every name, or on each topic. The configs of one are shown with DESCRIBE_CONFIGS."""
    may_create_all = asker.may_on_cluster(Operation.CREATE)
    allowed, refused = await asked(
        request.topics, lambda topic: may_create_all or asker.may(Operation.CREATE, _TOPIC, topic.name)
    )
    response: CreateTopicsResponse = await proceed(replace(request, topics=allowed) if refused else request)
    turns, results = Turns(ASKED_AT_ONCE), list[CreatableTopicResult]()
    for result in response.topics:
        is_shown = result.error_code != ErrorCode.NONE or asker.may(Operation.DESCRIBE_CONFIGS, _TOPIC, result.name)
        results.append(result if is_shown else _without_configs(result))
        await turns.done()
    for name in dict.fromkeys(topic.name for topic in refused):
        results.append(refused_topic(name, asker.refusal(Operation.CREATE, _TOPIC, name)))
        await turns.done()
    return replace(response, topics=tuple(results))


def _without_configs(result: CreatableTopicResult) -> CreatableTopicResult:
    return replace(
        result,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )


def delete_topics(image: CurrentImage) -> Guard:
    """DELETE on the cluster, for every topic, or on each. One given by its id is named if it may be described.

    Whoever may describe a name is told that there is no such topic.
    """

    async def guard(asker: Asker, request: DeleteTopicsRequest, proceed: Proceed) -> DeleteTopicsResponse:
        known = image()
        may_delete_all = asker.may_on_cluster(Operation.DELETE)
        allowed, refused = await asked(request.topics, lambda state: may_delete_all or _may_delete(asker, state, known))
        if not refused:
            response: DeleteTopicsResponse = await proceed(request)
            return response
        response = await proceed(replace(request, topics=allowed))
        turns, results = Turns(ASKED_AT_ONCE), []
        for state in refused:
            results.append(_not_deleted(asker, state, known))
            await turns.done()
        return replace(response, responses=(*response.responses, *results))

    return guard


def _may_delete(asker: Asker, state: Any, image: MetadataImage) -> bool:
    """Return True also for a topic id that does not exist, which the handler refuses."""
    name = state.name
    if name is None:
        topic = image.topic_by_id(state.topic_id)
        name = None if topic is None else topic.topic
    return name is None or asker.may(Operation.DELETE, _TOPIC, name)


def _not_deleted(asker: Asker, state: Any, image: MetadataImage) -> DeletableTopicResult:
    if state.name is None:
        topic = image.topic_by_id(state.topic_id)
        is_named = topic is not None and asker.may(Operation.DESCRIBE, _TOPIC, topic.topic)
        refusal = asker.refusal(Operation.DELETE, _TOPIC, topic.topic if is_named and topic else "")
        return refused_deletion(state, refusal, topic if is_named else None)
    if image.topic(state.name) is None and asker.may(Operation.DESCRIBE, _TOPIC, state.name):
        # It is not left to the handler: the topic may be created before that decides.
        return refused_deletion(state, no_such_topic(state))
    return refused_deletion(state, asker.refusal(Operation.DELETE, _TOPIC, state.name))


create_partitions: Final = part_by_part(
    topic_needs(Operation.ALTER),
    parts="topics",
    name=lambda topic: str(topic.name),
    refused=refused_partitions,
    answers="results",
)

# --- descriptions ----------------------------------------------------------------------------------------------------


def metadata(image: CurrentImage, *, creates: bool) -> Guard:
    """DESCRIBE on each topic; to create a missing one, if that `creates` it, CREATE on the cluster or on the topic.

    All topics are those that the client may describe. The operations on the cluster are told to whoever may
    describe it, and are none for others.
    """

    async def guard(asker: Asker, request: MetadataRequest, proceed: Proceed) -> MetadataResponse:
        if request.topics is None:
            response = await _visible_topics(asker, request, proceed, image())
        else:
            response = await _named_topics(asker, request, proceed, image(), creates=creates)
        if request.include_topic_authorized_operations:
            response = replace(response, topics=await _with_operations(asker, response.topics))
        if request.include_cluster_authorized_operations:
            response = replace(response, cluster_authorized_operations=asker.operations_on_cluster())
        return response

    return guard


async def _visible_topics(
    asker: Asker, request: MetadataRequest, proceed: Proceed, image: MetadataImage
) -> MetadataResponse:
    visible, hidden = await asked(image.topic_ids, lambda name: asker.may(Operation.DESCRIBE, _TOPIC, name))
    if not hidden:
        response: MetadataResponse = await proceed(request)
        return response
    names, topics = sorted(visible), list[MetadataResponseTopic]()
    response = await proceed(replace(request, topics=(), allow_auto_topic_creation=False))
    # Some at a time: only that many are made before other tasks have their turn.
    for start in range(0, len(names), ASKED_AT_ONCE):
        named = tuple(MetadataRequestTopic(name=name) for name in names[start : start + ASKED_AT_ONCE])
        response = await proceed(replace(request, topics=named, allow_auto_topic_creation=False))
        # One that was deleted meanwhile is none of all topics.
        topics += (each for each in response.topics if each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await asyncio.sleep(0)
    return replace(response, topics=tuple(topics))


async def _named_topics(
    asker: Asker, request: MetadataRequest, proceed: Proceed, image: MetadataImage, *, creates: bool
) -> MetadataResponse:
    def name_of(asked_for: MetadataRequestTopic) -> str | None:
        """Return the name; None for an id that no topic has, which the handler refuses."""
        if asked_for.name is not None:
            return asked_for.name
        topic = image.topic_by_id(asked_for.topic_id)
        return None if topic is None else topic.topic

    def may(operation: Operation, asked_for: MetadataRequestTopic) -> bool:
        name = name_of(asked_for)
        return name is None or asker.may(operation, _TOPIC, name)

    topics = request.topics or ()
    visible, hidden = await asked(topics, lambda topic: may(Operation.DESCRIBE, topic))
    missing: tuple[MetadataRequestTopic, ...] = ()
    if creates and request.allow_auto_topic_creation and not asker.may_on_cluster(Operation.CREATE):
        there, others = await asked(visible, lambda topic: topic.name is None or image.topic(topic.name) is not None)
        creatable, missing = await asked(others, lambda topic: may(Operation.CREATE, topic))
        visible = (*there, *creatable)
        if not creatable:
            # The handler may wait, and must not create again what is deleted meanwhile.
            request = replace(request, allow_auto_topic_creation=False)
    if not hidden and not missing:
        response: MetadataResponse = await proceed(request)
        return response
    response = await proceed(replace(request, topics=visible))
    refused = {
        (topic.name, topic.topic_id): _hidden(topic, asker.refusal(operation, _TOPIC, topic.name or ""))
        for topics, operation in ((missing, Operation.CREATE), (hidden, Operation.DESCRIBE))
        for topic in topics
    }
    return replace(response, topics=(*response.topics, *refused.values()))


def _hidden(asked_for: MetadataRequestTopic, refusal: Refusal) -> MetadataResponseTopic:
    """Return the answer for a topic as it was asked for: neither the id of a name, nor the name of an id."""
    name = asked_for.name
    return MetadataResponseTopic(
        error_code=refusal.error_code,
        name=name,
        topic_id=ZERO_UUID if name is not None else asked_for.topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=NOT_ASKED,
        error_message=refusal.message if name is not None else "",
    )


async def _with_operations(asker: Asker, topics: Iterable[MetadataResponseTopic]) -> tuple[MetadataResponseTopic, ...]:
    turns, shown = Turns(ASKED_AT_ONCE), list[MetadataResponseTopic]()
    for topic in topics:
        is_known = topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED
        operations = asker.operations_on(_TOPIC, topic.name or "") if is_known else NOT_ASKED
        shown.append(replace(topic, topic_authorized_operations=operations))
        await turns.done(8)
    return tuple(shown)


async def describe_cluster(asker: Asker, request: Any, proceed: Proceed) -> Any:
    """Anybody may; only the operations on the cluster depend on who asks."""
    response = await proceed(request)
    if not request.include_cluster_authorized_operations or response.error_code:
        return response
    return replace(response, cluster_authorized_operations=asker.operations_on_cluster())


def describe_topic_partitions(image: CurrentImage) -> Guard:
    """DESCRIBE on each topic."""

    async def guard(
        asker: Asker, request: DescribeTopicPartitionsRequest, proceed: Proceed
    ) -> DescribeTopicPartitionsResponse:
        begin = "" if request.cursor is None else request.cursor.topic_name
        names = {topic.name for topic in request.topics} or image().topic_ids
        following = sorted(name for name in names if name >= begin)
        visible, hidden = await _first_visible(asker, following, PARTITIONS_MAX + 1)
        response = DescribeTopicPartitionsResponse(topics=())
        # No topic would be every topic. The handler also says what is wrong with a cursor.
        if visible or (request.cursor is not None and request.cursor.partition_index < 0):
            named = tuple(TopicRequest(name=name) for name in visible)
            response = await proceed(replace(request, topics=named))
        shown = [
            replace(topic, topic_authorized_operations=asker.operations_on(_TOPIC, topic.name or ""))
            for topic in response.topics
        ]
        if request.topics:
            asker.is_refused(Operation.DESCRIBE, _TOPIC, hidden)
            shown += [_hidden_partitions(name) for name in hidden]
        return replace(response, topics=tuple(shown))

    return guard


async def _first_visible(asker: Asker, names: Iterable[str], count: int) -> tuple[list[str], list[str]]:
    """Return the first names that the asker may describe, which fill a page, and those before that it may not."""
    turns, visible, hidden = Turns(ASKED_AT_ONCE), list[str](), list[str]()
    for name in names:
        (visible if asker.may(Operation.DESCRIBE, _TOPIC, name) else hidden).append(name)
        if len(visible) >= count:
            break
        await turns.done()
    return visible, hidden


def _hidden_partitions(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=ZERO_UUID, partitions=()
    )


def describe_topics(image: CurrentImage) -> Guard:
    """DESCRIBE on each topic; the configs set on it are shown with DESCRIBE_CONFIGS."""

    async def guard(asker: Asker, request: DescribeTopicsRequest, proceed: Proceed) -> DescribeTopicsResponse:
        names = list(dict.fromkeys(request.topics)) or sorted(image().topic_ids)
        visible, hidden = await asked(names, lambda name: asker.may(Operation.DESCRIBE, _TOPIC, name))
        response = DescribeTopicsResponse(topics=[])
        if visible:
            response = await proceed(structs.replace(request, topics=list(visible)))
        turns, shown = Turns(ASKED_AT_ONCE), list[TopicDescription]()
        for topic in response.topics:
            shown.append(_as_seen_by(asker, topic))
            await turns.done(9)
        if request.topics:
            shown += [
                TopicDescription(
                    topic=name,
                    metadata=_hidden_partitions(name),
                    configs={},
                    error_message=asker.refusal(Operation.DESCRIBE, _TOPIC, name).message,
                )
                for name in hidden
            ]
        return DescribeTopicsResponse(topics=shown)

    return guard


def _as_seen_by(asker: Asker, topic: TopicDescription) -> TopicDescription:
    has_configs = asker.may(Operation.DESCRIBE_CONFIGS, _TOPIC, topic.topic)
    return TopicDescription(
        topic=topic.topic,
        metadata=replace(topic.metadata, topic_authorized_operations=asker.operations_on(_TOPIC, topic.topic)),
        configs=topic.configs if has_configs else {},
        error_message=topic.error_message,
    )
