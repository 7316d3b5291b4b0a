from __future__ import annotations

import asyncio
from collections.abc import Iterable
from uuid import UUID

import pytest

from kraft.metadata.described_topics import DescribeTopicsRequest, TopicDescription
from kraft.metadata.image import MetadataImage
from kraft.metadata.metadata_requests import metadata_of
from kraft.metadata.records import BrokerFenced
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerId
from kraft.model.principal import Principal
from kraft.model.request_context import RequestContext
from kraft.server.cluster.controller_client import NoController
from kraft.server.handlers.describe_topics import describe_topics
from kraft.server.handlers.metadata import CREATED_AT_ONCE
from kraft.wire.declaration import replace
from kraft.wire.schema.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kraft.wire.schema.metadata import MetadataRequest, MetadataResponse
from tests.support.cluster_images import CLUSTER, cluster, epoch_of, with_topic
from tests.support.server.fake_controllers import FakeControllers
from tests.unit.server.handlers.described_metadata import metadata_handler


def created(request: CreateTopicsRequest, code: ErrorCode) -> CreateTopicsResponse:
    results = (CreatableTopicResult(name=new.name, error_code=code, error_message=None) for new in request.topics)
    return CreateTopicsResponse(topics=tuple(results))


ALICE = Principal("alice")
IMAGE = with_topic(cluster(1, 2, 3), [1, 2], [2, 3], isr=[2])


def ask(
    request: MetadataRequest,
    *,
    image: MetadataImage = IMAGE,
    controllers: FakeControllers | None = None,
    auto_create: bool = False,
    waited_for: list[list[str]] | None = None,
    noted: list[tuple[Principal, str, int]] | None = None,
) -> MetadataResponse:
    """`waited_for` collects the topics whose lost leaders must be replaced before the response, `noted` what is noted
    of topics that clients have created."""

    async def replaced(topics: Iterable[str]) -> None:
        if waited_for is not None:
            waited_for.append(list(topics))

    handler = metadata_handler(
        image,
        controllers or FakeControllers(),
        auto_create=auto_create,
        known_to_lead=replaced,
        creation_noted=None if noted is None else lambda context, *what: noted.append((context.principal, *what)),
    )
    return asyncio.run(handler.handle(request, RequestContext(version=13, principal=ALICE)))


def creating(*names: str) -> MetadataRequest:
    return replace(metadata_of(names), allow_auto_topic_creation=True)


def test_all_topics_are_listed_with_their_leaders_and_addresses() -> None:
    response = ask(metadata_of(None))
    assert (response.cluster_id, response.controller_id) == (CLUSTER, 1)
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [
        (1, "localhost", 9095),
        (2, "localhost", 9096),
        (3, "localhost", 9097),
    ]
    (topic,) = response.topics
    assert [(state.leader_id, state.replica_nodes, state.isr_nodes) for state in topic.partitions] == [
        (2, (1, 2), (2,)),
        (2, (2, 3), (2,)),
    ]


def test_an_answer_about_named_topics_waits_for_their_next_leaders_and_one_about_all_does_not() -> None:
    waited_for: list[list[str]] = []
    ask(metadata_of(["orders", "payments"]), waited_for=waited_for)
    ask(metadata_of(None), waited_for=waited_for)
    assert waited_for == [["orders", "payments"]]


def test_no_names_are_no_topics() -> None:
    assert ask(metadata_of(())).topics == ()


def test_a_fenced_broker_is_listed_as_offline_and_no_client_is_sent_there() -> None:
    image = IMAGE.replay([BrokerFenced(broker_id=BrokerId(1), broker_epoch=epoch_of(IMAGE, 1))])
    response = ask(metadata_of(["orders"]), image=image)
    assert [broker.node_id for broker in response.brokers] == [2, 3]
    assert [state.offline_replicas for state in response.topics[0].partitions] == [(1,), ()]


def test_an_unknown_topic_is_created_only_if_client_and_broker_allow_it() -> None:
    for allow, enabled in ((False, True), (True, False)):
        request = replace(metadata_of(["payments"]), allow_auto_topic_creation=allow)
        (topic,) = ask(request, auto_create=enabled).topics
        assert (topic.error_code, topic.topic_id, topic.partitions) == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            UUID(int=0),
            (),
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
    request = creating("payments", "orders", "payments")
    response = ask(request, controllers=controllers, auto_create=True)
    assert [topic.error_code for topic in response.topics] == [code, ErrorCode.NONE]
    (asked,) = controllers.requests("create_topics")
    assert [new.name for new in asked.topics] == ["payments"]


@pytest.mark.parametrize(
    ("outcome", "noted"),
    [
        (ErrorCode.NONE, [ErrorCode.NONE]),
        (ErrorCode.INVALID_REPLICATION_FACTOR, [ErrorCode.INVALID_REPLICATION_FACTOR]),
        (ErrorCode.TOPIC_ALREADY_EXISTS, []),
        (NoController("nobody"), [ErrorCode.REQUEST_TIMED_OUT]),
        (Refusal(ErrorCode.POLICY_VIOLATION, "no"), [ErrorCode.POLICY_VIOLATION]),
    ],
    ids=str,
)
def test_what_becomes_of_a_topic_that_a_client_has_created_is_noted_with_the_client(
    outcome: ErrorCode | Exception, noted: list[ErrorCode]
) -> None:
    def create(request: CreateTopicsRequest) -> CreateTopicsResponse:
        assert isinstance(outcome, ErrorCode)
        return created(request, outcome)

    found: list[tuple[Principal, str, int]] = []
    controllers = FakeControllers(create_topics=outcome if isinstance(outcome, Exception) else create)
    ask(creating("payments", "orders"), controllers=controllers, auto_create=True, noted=found)
    assert found == [(ALICE, "payments", each) for each in noted]


async def test_a_topic_is_noted_though_the_client_that_has_it_created_is_gone() -> None:
    found: list[str] = []
    controllers = FakeControllers(create_topics=lambda request: created(request, ErrorCode.NONE))
    controllers.takes_s = 0.05
    handler = metadata_handler(
        IMAGE, controllers, auto_create=True, creation_noted=lambda _, name, code: found.append(name)
    )
    asking = asyncio.ensure_future(handler.handle(creating("payments"), RequestContext(version=13, principal=ALICE)))
    await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.sleep(0.1)
    assert (asking.cancelled(), found) == (True, ["payments"])


def test_of_many_unknown_topics_some_are_created_and_the_others_are_asked_for_again() -> None:
    def create(request: CreateTopicsRequest) -> CreateTopicsResponse:
        return created(request, ErrorCode.NONE)

    controllers = FakeControllers(create_topics=create)
    names = [f"topic {number}" for number in range(3 * CREATED_AT_ONCE)]
    response = ask(creating(*names), controllers=controllers, auto_create=True)
    (asked,) = controllers.requests("create_topics")
    assert [new.name for new in asked.topics] == names[:CREATED_AT_ONCE]
    assert {topic.error_code for topic in response.topics} == {ErrorCode.LEADER_NOT_AVAILABLE}


@pytest.mark.parametrize("failure", [NoController("nobody"), Refusal(ErrorCode.INVALID_REQUEST, "no")])
def test_a_topic_that_cannot_be_created_now_is_asked_for_again(failure: Exception) -> None:
    request = creating("payments")
    (topic,) = ask(request, controllers=FakeControllers(create_topics=failure), auto_create=True).topics
    assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE


def described(*names: str) -> list[TopicDescription]:
    return asyncio.run(describe_topics(IMAGE, DescribeTopicsRequest(topics=list(names)))).topics


def test_describing_no_names_describes_every_topic_and_an_unknown_one_says_so() -> None:
    assert [topic.topic for topic in described()] == ["orders"]
    (unknown,) = described("payments")
    assert unknown.metadata.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "payments" in unknown.error_message


def test_who_wants_only_configs_gets_no_partitions() -> None:
    (whole,) = described("orders")
    request = DescribeTopicsRequest(topics=["orders"], without_partitions=True)
    (orders,) = asyncio.run(describe_topics(IMAGE, request)).topics
    assert whole.metadata.partitions
    assert not orders.metadata.partitions
    assert orders.configs == whole.configs


def test_a_topic_that_is_named_a_thousand_times_is_described_once() -> None:
    assert [topic.topic for topic in described(*["orders", "payments"] * 1_000)] == ["orders", "payments"]
    assert [topic.name for topic in ask(metadata_of(["orders"] * 1_000)).topics] == ["orders"]
