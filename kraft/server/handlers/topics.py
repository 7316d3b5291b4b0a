"""CreateTopics, DeleteTopics and CreatePartitions: forwarded to and decided by the active controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.metadata.partition_creation import create_partitions, refused_partitions
from kraft.metadata.topic_decisions import ControllerDefaults, create_topics, refused_topic
from kraft.metadata.topic_deletion import refused_deletion
from kraft.model.errors import ErrorCode, Refusal
from kraft.rpc.topic_calls import CREATE_TOPICS, DELETE_TOPICS
from kraft.runtime.entropy import Entropy, random_uuid
from kraft.server.handlers.decisions import Decisions
from kraft.server.handlers.describe_configs import ENTRIES_AT_ONCE, DescribeConfigsHandler
from kraft.server.handlers.forwarding import Forwarder
from kraft.server.loop.turns import Turns
from kraft.wire.declaration import ZERO_UUID, replace
from kraft.wire.schema.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kraft.wire.schema.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kraft.wire.schema.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

_START_MAX: Final = 2**31

# --- creation ----------------------------------------------------------------------------------------------------


async def create(
    forwarder: Forwarder, configs: DescribeConfigsHandler, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Forward the request; the response gets the configs in effect at this broker."""
    response = await forwarder.decided(CREATE_TOPICS, request, _is_created)
    asked, turns, results = {topic.name: topic for topic in request.topics}, Turns(ENTRIES_AT_ONCE), []
    for result in response.topics:
        described = _in_effect(configs, asked[result.name]) if result.error_code == ErrorCode.NONE else ()
        results.append(replace(result, configs=described))
        await turns.done(1 + len(described))
    return replace(response, topics=tuple(results))


def _is_created(image: MetadataImage, _: CreateTopicsRequest, response: CreateTopicsResponse) -> bool:
    return all(
        image.topic(result.name) is not None for result in response.topics if result.error_code == ErrorCode.NONE
    )


def _in_effect(configs: DescribeConfigsHandler, topic: CreatableTopic) -> tuple[CreatableTopicConfigs, ...]:
    own = {config.name: config.value for config in topic.configs if config.value is not None}
    return tuple(
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.config_source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in configs.in_effect_on_topic(own)
    )


async def decide_creation(
    decisions: Decisions,
    entropy: Entropy,
    defaults: Callable[[MetadataImage], ControllerDefaults],
    request: CreateTopicsRequest,
) -> CreateTopicsResponse:
    # The ids and the random start of the placement are drawn here, because decisions are deterministic.
    topic_ids = [random_uuid(entropy) for _ in request.topics]
    start = entropy.below(_START_MAX)
    return await decisions.submit(
        lambda image: create_topics(
            image, request, topic_ids=topic_ids, placement_start=start, defaults=defaults(image)
        )
    )


def creation_refused(request: CreateTopicsRequest, refusal: Refusal) -> CreateTopicsResponse:
    results: dict[str, CreatableTopicResult] = {
        topic.name: refused_topic(topic.name, refusal) for topic in request.topics
    }
    return CreateTopicsResponse(topics=tuple(results.values()))


# --- deletion ----------------------------------------------------------------------------------------------------

_STATES_FROM: Final = 6
"""First version in which a request may name topics by id."""

_DISABLED_FROM: Final = 3
"""First version whose clients know TOPIC_DELETION_DISABLED."""


async def delete(forwarder: Forwarder, deletion_enabled: bool, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if not deletion_enabled:
        disabled = "topic deletion is disabled: set delete.topic.enable=true"
        raise Refusal(ErrorCode.TOPIC_DELETION_DISABLED, disabled)
    return await forwarder.decided(DELETE_TOPICS, request, _is_deleted)


def _is_deleted(image: MetadataImage, _: DeleteTopicsRequest, response: DeleteTopicsResponse) -> bool:
    return all(
        image.topic_by_id(result.topic_id) is None
        for result in response.responses
        if result.error_code == ErrorCode.NONE
    )


def deletion_refused(request: DeleteTopicsRequest, refusal: Refusal) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=tuple(refused_deletion(state, refusal) for state in request.topics))


def deletion_from_version(request: DeleteTopicsRequest, version: int) -> DeleteTopicsRequest:
    if version >= _STATES_FROM:
        return request
    return replace(
        request, topics=tuple(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names)
    )


def deletion_to_version(_: DeleteTopicsRequest, response: DeleteTopicsResponse, version: int) -> DeleteTopicsResponse:
    if version >= _DISABLED_FROM:
        return response
    return replace(response, responses=tuple(map(_known_to_old_clients, response.responses)))


def _known_to_old_clients(result: DeletableTopicResult) -> DeletableTopicResult:
    is_unknown = result.error_code == ErrorCode.TOPIC_DELETION_DISABLED
    return replace(result, error_code=ErrorCode.INVALID_REQUEST) if is_unknown else result


# --- more partitions ---------------------------------------------------------------------------------------------


def has_grown(image: MetadataImage, request: CreatePartitionsRequest, response: CreatePartitionsResponse) -> bool:
    counts = {asked.name: asked.count for asked in request.topics}
    return all(
        (topic := image.topic(result.name)) is not None and len(topic.partitions) >= counts[result.name]
        for result in response.results
        if result.error_code == ErrorCode.NONE
    )


async def decide_partitions(
    decisions: Decisions, entropy: Entropy, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    # The random start of the placement is drawn here, because decisions are deterministic.
    start = entropy.below(_START_MAX)
    return await decisions.submit(lambda image: create_partitions(image, request, placement_start=start))


def partitions_refused(request: CreatePartitionsRequest, refusal: Refusal) -> CreatePartitionsResponse:
    results = {asked.name: refused_partitions(asked, refusal) for asked in request.topics}
    return CreatePartitionsResponse(results=tuple(results.values()))
