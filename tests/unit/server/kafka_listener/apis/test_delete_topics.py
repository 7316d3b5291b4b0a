from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.topics import DeleteTopicsRequest as Asked
from kraft.model.topics import TopicResult, TopicResults
from kraft.server.kafka_listener.apis.delete_topics import DeleteTopicsApi
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

ORDERS, BILLS = UUID(int=1), UUID(int=2)


async def delete_all(request: Asked) -> TopicResults:
    by_name = [TopicResult(topic=name, error_code=ErrorCode.NONE, topic_id=ORDERS) for name in request.topics]
    by_id = [TopicResult(topic="bills", error_code=ErrorCode.NONE, topic_id=each) for each in request.topic_ids]
    return TopicResults(results=by_name + by_id)


def refusing(code: ErrorCode) -> Any:
    async def refuse(request: Asked) -> TopicResults:
        results = [TopicResult(topic=name, error_code=code, error_message="no") for name in request.topics]
        by_id = [
            TopicResult(topic="", error_code=code, error_message="no", topic_id=each) for each in request.topic_ids
        ]
        return TopicResults(results=results + by_id)

    return refuse


def delete(handle: Any, request: DeleteTopicsRequest, version: int) -> list[DeletableTopicResult]:
    return list(asyncio.run(answered(DeleteTopicsApi(handle), request, version, DeleteTopicsResponse)).responses)


def by_name(*names: str, version: int) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=names, timeout_ms=5_000)
    states = tuple(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names)
    return DeleteTopicsRequest(topics=states, timeout_ms=5_000)


@pytest.mark.parametrize("version", versions_of(DeleteTopicsRequest))
def test_topics_are_deleted_by_name(version: int) -> None:
    (result,) = delete(delete_all, by_name("orders", version=version), version)
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    assert result.topic_id == (ORDERS if version >= 6 else ZERO_UUID)


def test_topics_are_deleted_by_id_and_answered_with_their_names() -> None:
    states = (
        DeleteTopicState(name=None, topic_id=BILLS),
        DeleteTopicState(name="orders", topic_id=ZERO_UUID),
    )
    results = delete(delete_all, DeleteTopicsRequest(topics=states, timeout_ms=1), 6)
    assert {(each.name, each.topic_id, each.error_code) for each in results} == {
        ("orders", ORDERS, 0),
        ("bills", BILLS, 0),
    }


def test_an_unknown_topic_id_is_answered_without_a_name() -> None:
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name=None, topic_id=BILLS),), timeout_ms=1)
    (result,) = delete(refusing(ErrorCode.UNKNOWN_TOPIC_ID), request, 6)
    assert (result.name, result.topic_id, result.error_code) == (None, BILLS, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", versions_of(DeleteTopicsRequest))
def test_a_topic_with_an_empty_name_is_answered_with_it(version: int) -> None:
    request = by_name("", version=version)
    (result,) = delete(refusing(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), request, version)
    assert (result.name, result.topic_id) == ("", ZERO_UUID)


@pytest.mark.parametrize("topic_id", [ZERO_UUID, ORDERS], ids=["neither", "both"])
def test_a_topic_is_named_in_one_way(topic_id: UUID) -> None:
    state = DeleteTopicState(name=None if topic_id == ZERO_UUID else "orders", topic_id=topic_id)
    (result,) = delete(delete_all, DeleteTopicsRequest(topics=(state,), timeout_ms=1), 6)
    assert result.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", versions_of(DeleteTopicsRequest))
def test_disabled_deletion_is_answered_with_a_code_that_the_client_knows(version: int) -> None:
    (result,) = delete(refusing(ErrorCode.TOPIC_DELETION_DISABLED), by_name("orders", version=version), version)
    expected = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert (result.name, result.error_code) == ("orders", expected)


def test_a_request_that_is_refused_as_a_whole_is_refused_topic_by_topic() -> None:
    async def refuse(request: Asked) -> TopicResults:
        raise Refusal(ErrorCode.REQUEST_TIMED_OUT, "late")

    results = delete(refuse, by_name("a", "b", version=6), 6)
    assert [(each.name, each.error_code, each.error_message) for each in results] == [
        ("a", 7, "late"),
        ("b", 7, "late"),
    ]
