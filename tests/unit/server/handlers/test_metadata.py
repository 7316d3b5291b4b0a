from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from kraft.metadata.image import MetadataImage
from kraft.metadata.records import BrokerFenced
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.model.metadata import MetadataRequest, MetadataResponse
from kraft.model.topics import DescribeTopicsRequest, TopicDescription
from kraft.server.cluster.controller_client import NoController
from kraft.server.cluster.metadata_loader import MetadataLoader
from kraft.server.config.components import TopicDefaults
from kraft.server.handlers.describe_topics import describe_topics
from kraft.server.handlers.metadata import CREATED_AT_ONCE, MetadataHandler
from kraft.wire.schema.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tests.support.cluster_images import CLUSTER, cluster, epoch_of, with_topic
from tests.support.server.fake_controllers import FakeControllers


def created(request: CreateTopicsRequest, code: ErrorCode) -> CreateTopicsResponse:
    results = (CreatableTopicResult(name=new.name, error_code=code, error_message=None) for new in request.topics)
    return CreateTopicsResponse(topics=tuple(results))


IMAGE = with_topic(cluster(1, 2, 3), [1, 2], [2, 3], isr=[2])


def ask(
    request: MetadataRequest,
    *,
    image: MetadataImage = IMAGE,
    controllers: FakeControllers | None = None,
    auto_create: bool = False,
    waited_for: list[list[str]] | None = None,
) -> MetadataResponse:
    """`waited_for` collects the topics whose lost leaders must be replaced before the response."""

    async def replaced(topics: Iterable[str]) -> None:
        if waited_for is not None:
            waited_for.append(list(topics))

    loader = cast(MetadataLoader, SimpleNamespace(image=image))
    defaults = cast(TopicDefaults, SimpleNamespace(auto_create_enabled=auto_create))
    client = (controllers or FakeControllers()).as_client()
    return asyncio.run(MetadataHandler(loader, client, defaults, "GRPC", replaced, ()).handle(request))


def test_all_topics_are_listed_with_their_leaders_and_addresses() -> None:
    response = ask(MetadataRequest(topics=[], all_topics=True))
    assert (response.cluster_id, response.controller_id) == (CLUSTER, 1)
    assert [(broker.broker_id, broker.host, broker.port) for broker in response.brokers] == [
        (1, "localhost", 9095),
        (2, "localhost", 9096),
        (3, "localhost", 9097),
    ]
    (topic,) = response.topics
    assert [(state.leader_id, state.replicas, state.isr) for state in topic.partitions] == [
        (2, [1, 2], [2]),
        (2, [2, 3], [2]),
    ]


def test_an_answer_about_named_topics_waits_for_their_next_leaders_and_one_about_all_does_not() -> None:
    waited_for: list[list[str]] = []
    ask(MetadataRequest(topics=["orders", "payments"]), waited_for=waited_for)
    ask(MetadataRequest(topics=[], all_topics=True), waited_for=waited_for)
    assert waited_for == [["orders", "payments"]]


def test_no_names_are_no_topics() -> None:
    assert ask(MetadataRequest(topics=[])).topics == []


def test_a_fenced_broker_is_listed_as_offline_and_no_client_is_sent_there() -> None:
    image = IMAGE.replay([BrokerFenced(broker_id=BrokerId(1), broker_epoch=epoch_of(IMAGE, 1))])
    response = ask(MetadataRequest(topics=["orders"]), image=image)
    assert [broker.broker_id for broker in response.brokers] == [2, 3]
    assert [state.offline_replicas for state in response.topics[0].partitions] == [[1], []]


def test_an_unknown_topic_is_created_only_if_client_and_broker_allow_it() -> None:
    for allow, enabled in ((False, True), (True, False)):
        request = MetadataRequest(topics=["payments"], allow_auto_topic_creation=allow)
        (topic,) = ask(request, auto_create=enabled).topics
        assert (topic.error_code, topic.topic_id, topic.partitions) == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            UUID(int=0),
            [],
        )


@pytest.mark.parametrize(
    ("controllers_code", "code"),
    [
        (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_a_topic_in_creation_is_asked_for_again(controllers_code: ErrorCode, code: ErrorCode) -> None:
    def create(request: CreateTopicsRequest) -> CreateTopicsResponse:
        return created(request, controllers_code)

    controllers = FakeControllers(create_topics=create)
    request = MetadataRequest(topics=["payments", "orders", "payments"], allow_auto_topic_creation=True)
    response = ask(request, controllers=controllers, auto_create=True)
    assert [topic.error_code for topic in response.topics] == [code, ErrorCode.NONE]
    (asked,) = controllers.requests("create_topics")
    assert [new.name for new in asked.topics] == ["payments"]


def test_of_many_unknown_topics_some_are_created_and_the_others_are_asked_for_again() -> None:
    def create(request: CreateTopicsRequest) -> CreateTopicsResponse:
        return created(request, ErrorCode.NONE)

    controllers = FakeControllers(create_topics=create)
    names = [f"topic {number}" for number in range(3 * CREATED_AT_ONCE)]
    response = ask(
        MetadataRequest(topics=names, allow_auto_topic_creation=True), controllers=controllers, auto_create=True
    )
    (asked,) = controllers.requests("create_topics")
    assert [new.name for new in asked.topics] == names[:CREATED_AT_ONCE]
    assert {topic.error_code for topic in response.topics} == {ErrorCode.LEADER_NOT_AVAILABLE}


@pytest.mark.parametrize("failure", [NoController("nobody"), Refusal(ErrorCode.INVALID_REQUEST, "no")])
def test_a_topic_that_cannot_be_created_now_is_asked_for_again(failure: Exception) -> None:
    request = MetadataRequest(topics=["payments"], allow_auto_topic_creation=True)
    (topic,) = ask(request, controllers=FakeControllers(create_topics=failure), auto_create=True).topics
    assert topic.error_code is ErrorCode.LEADER_NOT_AVAILABLE


def described(*names: str) -> list[TopicDescription]:
    return asyncio.run(describe_topics(IMAGE, DescribeTopicsRequest(topics=list(names)))).topics


def test_describing_no_names_describes_every_topic_and_an_unknown_one_says_so() -> None:
    assert [topic.metadata.topic for topic in described()] == ["orders"]
    (unknown,) = described("payments")
    assert unknown.metadata.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "payments" in unknown.metadata.error_message


def test_a_topic_that_is_named_a_thousand_times_is_described_once() -> None:
    assert [topic.metadata.topic for topic in described(*["orders", "payments"] * 1_000)] == ["orders", "payments"]
    assert [topic.topic for topic in ask(MetadataRequest(topics=["orders"] * 1_000)).topics] == ["orders"]
