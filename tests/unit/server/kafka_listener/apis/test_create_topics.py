from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from kraft.model.configs import ConfigSource
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.partitions import ReplicaAssignment
from kraft.model.topics import CreateTopicsRequest as Asked
from kraft.model.topics import NewTopic, TopicResult, TopicResults
from kraft.server.kafka_listener.apis.create_topics import CreateTopicsApi
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kraft.wire.schema.describe_configs import DescribeConfigsResourceResult
from tests.support.new_topic import new_topic
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

TOPIC_ID = UUID(int=7)


class Controller:
    """Creates the requested topics, except those to refuse."""

    def __init__(self, refused: Mapping[str, ErrorCode] | None = None) -> None:
        self.asked: list[Asked] = []
        self._refused = refused or {}

    async def __call__(self, request: Asked) -> TopicResults:
        self.asked.append(request)
        return TopicResults(results=[self._result(topic) for topic in request.topics])

    def _result(self, topic: NewTopic) -> TopicResult:
        if topic.topic in self._refused:
            return TopicResult(topic=topic.topic, error_code=self._refused[topic.topic], error_message="no")
        return TopicResult(
            topic=topic.topic, error_code=ErrorCode.NONE, topic_id=TOPIC_ID, partitions=3, replication_factor=2
        )


def in_effect(own: Mapping[str, str]) -> list[DescribeConfigsResourceResult]:
    return [
        DescribeConfigsResourceResult(
            name=key,
            value=value,
            read_only=False,
            config_source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
            is_sensitive=False,
            synonyms=(),
        )
        for key, value in own.items()
    ]


def topic(name: str = "orders", partitions: int = 3, replication_factor: int = 2, **settings: Any) -> CreatableTopic:
    return new_topic(name, partitions, replication_factor, **settings)


def create(
    controller: Any, *topics: CreatableTopic, version: int = 7, timeout_ms: int = 5_000, validate_only: bool = False
) -> list[CreatableTopicResult]:
    api = CreateTopicsApi(controller, in_effect)
    request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
    return list(asyncio.run(answered(api, request, version, CreateTopicsResponse)).topics)


@pytest.mark.parametrize("version", versions_of(CreateTopicsRequest))
def test_a_topic_is_created_as_asked(version: int) -> None:
    controller = Controller()
    (result,) = create(controller, topic(configs={"retention.ms": "5"}), version=version)
    assert controller.asked == [
        Asked(
            topics=[NewTopic(topic="orders", partitions=3, replication_factor=2, configs={"retention.ms": "5"})],
            timeout_ms=5_000,
        )
    ]
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert result.topic_id == (TOPIC_ID if version >= 7 else ZERO_UUID)
    assert (result.num_partitions, result.replication_factor) == ((3, 2) if version >= 5 else (-1, -1))
    configs = (
        None if result.configs is None else [(each.name, each.value, each.config_source) for each in result.configs]
    )
    assert configs == ([("retention.ms", "5", 1)] if version >= 5 else None)


def test_a_topic_that_is_only_checked_has_no_id() -> None:
    async def check(request: Asked) -> TopicResults:
        assert request.validate_only
        result = TopicResult(topic="orders", error_code=ErrorCode.NONE, partitions=3, replication_factor=2)
        return TopicResults(results=[result])

    (result,) = create(check, topic(), validate_only=True)
    assert (result.topic_id, result.num_partitions, result.error_code) == (ZERO_UUID, 3, 0)


def test_partitions_are_placed_by_hand_in_their_order() -> None:
    controller = Controller()
    create(controller, topic(partitions=-1, replication_factor=-1, assignments={1: (3, 1), 0: (1, 2)}))
    (new_topic,) = controller.asked[0].topics
    assert new_topic.assignments == [ReplicaAssignment(replicas=[1, 2]), ReplicaAssignment(replicas=[3, 1])]
    assert (new_topic.partitions, new_topic.replication_factor) == (-1, -1)


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (topic("bad", -1, -1, assignments={0: (1,), 2: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("bad", -1, -1, assignments={1: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("bad", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
    ],
    ids=["hole", "not from 0", "null"],
)
def test_what_cannot_be_is_refused_and_the_others_are_created(refused: CreatableTopic, code: ErrorCode) -> None:
    controller = Controller()
    bad, good = create(controller, refused, topic("good"))
    assert (bad.name, bad.error_code, bad.num_partitions, bad.configs) == ("bad", code, -1, ())
    assert (good.name, good.error_code) == ("good", 0)
    assert [each.topic for each in controller.asked[0].topics] == ["good"]


def test_a_topic_that_is_in_a_request_twice_is_refused_once() -> None:
    controller = Controller()
    twice, once = create(controller, topic("a"), topic("b"), topic("a", configs={"retention.ms": None}))
    assert (twice.name, twice.error_code) == ("a", ErrorCode.INVALID_REQUEST)
    assert "2 times" in (twice.error_message or "")
    assert (once.name, once.error_code) == ("b", 0)


def test_the_controllers_refusal_is_answered_with_its_reason() -> None:
    (result,) = create(Controller({"orders": ErrorCode.TOPIC_ALREADY_EXISTS}), topic())
    assert (result.error_code, result.error_message) == (ErrorCode.TOPIC_ALREADY_EXISTS, "no")


def test_a_request_that_is_refused_as_a_whole_is_refused_topic_by_topic() -> None:
    async def refuse(request: Asked) -> TopicResults:
        raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "no controller is active")

    results = create(refuse, topic("a"), topic("b"))
    assert [(each.name, each.error_code) for each in results] == [("a", 7), ("b", 7)]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_client_that_wants_no_waiting_still_gets_its_topic(timeout_ms: int) -> None:
    controller = Controller()
    create(controller, topic(), timeout_ms=timeout_ms)
    assert controller.asked[0].timeout_ms == 1_000
