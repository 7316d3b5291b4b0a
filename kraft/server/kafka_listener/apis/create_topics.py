"""CreateTopics: create topics, with replicas placed by the controller or by the request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from kraft.model import topics as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.partitions import ReplicaAssignment
from kraft.server.kafka_listener.apis.timeouts import forward_timeout_ms
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kraft.wire.schema.describe_configs import DescribeConfigsResourceResult

Handle = Callable[[values.CreateTopicsRequest], Awaitable[values.TopicResults]]

ConfigsInEffect = Callable[[Mapping[str, str]], Sequence[DescribeConfigsResourceResult]]
"""Returns all configs in effect on a topic that sets the given ones."""


class CreateTopicsApi:
    def __init__(self, handle: Handle, configs_in_effect: ConfigsInEffect) -> None:
        self._handle = handle
        self._configs_in_effect = configs_in_effect

    async def __call__(self, request: CreateTopicsRequest, call: RequestContext) -> CreateTopicsResponse:
        named = Counter(topic.name for topic in request.topics)
        results: dict[str, CreatableTopicResult] = {}
        wanted = []
        for topic in request.topics:
            try:
                wanted.append(_new_topic(topic, named[topic.name]))
            except Refusal as refusal:
                results[topic.name] = _refused(topic.name, refusal)
        if wanted:
            results |= await self._create(wanted, request)
        return CreateTopicsResponse(topics=tuple(results[name] for name in named))

    async def _create(
        self, wanted: list[values.NewTopic], request: CreateTopicsRequest
    ) -> dict[str, CreatableTopicResult]:
        try:
            answer = await self._handle(
                values.CreateTopicsRequest(
                    topics=wanted,
                    timeout_ms=forward_timeout_ms(request.timeout_ms),
                    validate_only=request.validate_only,
                )
            )
        except Refusal as refusal:
            return {topic.topic: _refused(topic.topic, refusal) for topic in wanted}
        return {topic.topic: self._result(topic, result) for topic, result in zip(wanted, answer.results, strict=True)}

    def _result(self, topic: values.NewTopic, result: values.TopicResult) -> CreatableTopicResult:
        if result.error_code is not ErrorCode.NONE:
            return _refused(topic.topic, Refusal(result.error_code, result.error_message))
        return CreatableTopicResult(
            name=topic.topic,
            topic_id=result.topic_id or ZERO_UUID,
            error_code=ErrorCode.NONE,
            error_message=None,
            num_partitions=result.partitions,
            replication_factor=result.replication_factor,
            configs=tuple(
                CreatableTopicConfigs(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.read_only,
                    config_source=entry.config_source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in self._configs_in_effect(topic.configs)
            ),
        )


def _new_topic(topic: CreatableTopic, times_named: int) -> values.NewTopic:
    """Convert one topic. Raises Refusal."""
    if times_named > 1:
        problem = f"topic '{topic.name[:300]}' is in the request {times_named} times: name it once"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    configs = {}
    for config in topic.configs:
        if config.value is None:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"config '{config.name[:100]}' has no value: give it one")
        configs[config.name] = config.value
    return values.NewTopic(
        topic=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs=configs,
        assignments=_assignments(topic),
    )


def _assignments(topic: CreatableTopic) -> list[ReplicaAssignment]:
    """Return the assignments in the order of partitions. Raises Refusal if one is missing or there twice."""
    placed = sorted(topic.assignments, key=lambda each: each.partition_index)
    if [each.partition_index for each in placed] != list(range(len(placed))):
        problem = "replica assignment skips or repeats a partition: name each partition once, from 0 on"
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    return [ReplicaAssignment(replicas=list(each.broker_ids)) for each in placed]


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=refusal.error_code, error_message=refusal.message or None, configs=()
    )
