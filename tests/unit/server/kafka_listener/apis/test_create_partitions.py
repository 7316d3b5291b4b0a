from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.partitions import CreatePartitionsRequest as Asked
from kraft.model.partitions import NewPartitions, ReplicaAssignment
from kraft.model.topics import TopicResult, TopicResults
from kraft.server.kafka_listener.apis.create_partitions import CreatePartitionsApi
from kraft.wire.schema.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


def topic(name: str, count: int, *by_hand: tuple[int, ...]) -> CreatePartitionsTopic:
    placed = tuple(CreatePartitionsAssignment(broker_ids=replicas) for replicas in by_hand)
    return CreatePartitionsTopic(name=name, count=count, assignments=placed or None)


def grow(handle: Any, *topics: CreatePartitionsTopic, version: int = 3) -> list[tuple[str, int, str | None]]:
    request = CreatePartitionsRequest(topics=topics, timeout_ms=5_000, validate_only=True)
    response = asyncio.run(answered(CreatePartitionsApi(handle), request, version, CreatePartitionsResponse))
    return [(each.name, each.error_code, each.error_message) for each in response.results]


@pytest.mark.parametrize("version", versions_of(CreatePartitionsRequest))
def test_partitions_are_added_where_the_request_says_or_where_there_is_room(version: int) -> None:
    asked = []

    async def handle(request: Asked) -> TopicResults:
        asked.append(request)
        refused = TopicResult(topic="bills", error_code=ErrorCode.INVALID_PARTITIONS, error_message="no increase")
        return TopicResults(results=[TopicResult(topic="orders", error_code=ErrorCode.NONE), refused])

    answer = grow(handle, topic("orders", 4, (1, 2), (2, 1)), topic("bills", 2), version=version)
    by_hand = [ReplicaAssignment(replicas=[1, 2]), ReplicaAssignment(replicas=[2, 1])]
    assert asked == [
        Asked(
            topics=[
                NewPartitions(topic="orders", count=4, assignments=by_hand),
                NewPartitions(topic="bills", count=2),
            ],
            timeout_ms=5_000,
            validate_only=True,
        )
    ]
    assert answer == [("orders", 0, None), ("bills", ErrorCode.INVALID_PARTITIONS, "no increase")]


def test_a_topic_that_is_in_a_request_twice_has_one_result() -> None:
    async def handle(request: Asked) -> TopicResults:
        return TopicResults(
            results=[
                TopicResult(topic=each.topic, error_code=ErrorCode.INVALID_REQUEST, error_message="twice")
                for each in request.topics
            ]
        )

    assert grow(handle, topic("orders", 4), topic("orders", 5)) == [("orders", ErrorCode.INVALID_REQUEST, "twice")]


def test_a_request_that_is_refused_as_a_whole_is_refused_topic_by_topic() -> None:
    async def refuse(request: Asked) -> TopicResults:
        raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "late")

    assert grow(refuse, topic("a", 2), topic("b", 2)) == [("a", 7, "late"), ("b", 7, "late")]
