from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.topics import CreateTopicsRequest, DeleteTopicsRequest, NewTopic, TopicResult, TopicResults
from kraft.server.cluster.controller_client import NoController
from kraft.server.handlers.forwarding import LOCALLY_KNOWN_MAX_S, TIMEOUT_MAX_S
from kraft.server.handlers.topics import TopicsHandler
from tests.support.cluster_images import cluster, with_topic
from tests.support.server.fake_controllers import FakeControllers
from tests.unit.server.handlers.loader import Loader

ORDERS = with_topic(cluster(1), [1])
CREATE = CreateTopicsRequest(topics=[NewTopic(topic="orders")], timeout_ms=30_000)
DELETE = DeleteTopicsRequest(topics=["orders"], timeout_ms=30_000)
DONE = TopicResults(results=[TopicResult(topic="orders", error_code=ErrorCode.NONE)])


def handler(controllers: FakeControllers, loader: Loader, *, deletion_enabled: bool = True) -> TopicsHandler:
    return TopicsHandler(controllers.forwarder(loader), deletion_enabled=deletion_enabled)


async def test_created_topics_are_answered_when_this_broker_has_applied_them() -> None:
    loader = Loader()
    answer = asyncio.ensure_future(handler(FakeControllers(create_topics=DONE), loader).create(CREATE))
    await asyncio.sleep(0.5)
    assert not answer.done()
    loader.image = ORDERS
    assert await answer == DONE


async def test_a_broker_that_hears_late_of_the_topic_answers_all_the_same() -> None:
    began = asyncio.get_running_loop().time()
    assert await handler(FakeControllers(create_topics=DONE), Loader()).create(CREATE) == DONE
    assert asyncio.get_running_loop().time() - began == pytest.approx(LOCALLY_KNOWN_MAX_S, abs=0.1)


async def test_what_is_only_validated_or_refused_is_not_waited_for() -> None:
    began = asyncio.get_running_loop().time()
    only_validated = CreateTopicsRequest(topics=CREATE.topics, timeout_ms=30_000, validate_only=True)
    await handler(FakeControllers(create_topics=DONE), Loader()).create(only_validated)
    refused = TopicResults(results=[TopicResult(topic="orders", error_code=ErrorCode.INVALID_PARTITIONS)])
    assert await handler(FakeControllers(create_topics=refused), Loader()).create(CREATE) == refused
    assert asyncio.get_running_loop().time() == began


async def test_who_deletes_a_topic_is_answered_when_this_broker_has_let_it_go() -> None:
    loader = Loader(ORDERS)
    answer = asyncio.ensure_future(handler(FakeControllers(delete_topics=DONE), loader).delete(DELETE))
    await asyncio.sleep(0.5)
    assert not answer.done()
    loader.image = cluster(1)
    assert await answer == DONE


async def test_what_is_refused_before_a_controller_is_asked_names_every_topic_as_the_request_does() -> None:
    topic_id = UUID(int=5)
    request = DeleteTopicsRequest(topics=["orders"], timeout_ms=30_000, topic_ids=[topic_id])
    answer = await handler(FakeControllers(), Loader(ORDERS), deletion_enabled=False).delete(request)
    assert [(result.topic, result.topic_id) for result in answer.results] == [("orders", None), ("", topic_id)]
    assert {result.error_code for result in answer.results} == {ErrorCode.TOPIC_DELETION_DISABLED}


async def test_where_deletion_is_switched_off_no_controller_is_asked() -> None:
    controllers = FakeControllers()
    answer = await handler(controllers, Loader(ORDERS), deletion_enabled=False).delete(DELETE)
    assert [result.error_code for result in answer.results] == [ErrorCode.TOPIC_DELETION_DISABLED]
    assert "delete.topic.enable=true" in answer.results[0].error_message
    assert controllers.asked == []


async def test_without_a_controller_every_topic_of_the_request_is_refused() -> None:
    nobody = NoController("no controller is active: 1@localhost:9093 is not the active controller")
    controllers = FakeControllers(create_topics=nobody, delete_topics=nobody)
    topics = handler(controllers, Loader(ORDERS))
    for answer in (await topics.create(CREATE), await topics.delete(DELETE)):
        (result,) = answer.results
        assert (result.topic, result.error_code) == ("orders", ErrorCode.REQUEST_TIMED_OUT)
        assert "no controller is active" in result.error_message


@pytest.mark.parametrize(("timeout_ms", "within_s"), [(1_500, 1.5), (2**31 - 1, TIMEOUT_MAX_S), (-1, 1)])
async def test_the_request_says_how_long_it_waits_within_reason(timeout_ms: int, within_s: float) -> None:
    controllers = FakeControllers(create_topics=DONE)
    controllers.takes_s = 3_600
    began = asyncio.get_running_loop().time()
    request = CreateTopicsRequest(topics=CREATE.topics, timeout_ms=timeout_ms)
    answer = await handler(controllers, Loader()).create(request)
    assert answer.results[0].error_code is ErrorCode.REQUEST_TIMED_OUT
    assert asyncio.get_running_loop().time() - began == pytest.approx(within_s)


async def test_a_refusal_of_the_request_as_a_whole_is_passed_on() -> None:
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "split the request")
    with pytest.raises(Refusal, match="split the request"):
        await handler(FakeControllers(create_topics=refusal), Loader()).create(CREATE)
