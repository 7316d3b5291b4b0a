from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast
from uuid import UUID

import pytest

from kraft.metadata.new_topics import new_topic
from kraft.metadata.partition_creation import create_partitions
from kraft.model.configs import ConfigSource
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers import topics
from kraft.server.handlers.describe_configs import DescribeConfigsHandler
from kraft.server.handlers.forwarding import LOCALLY_KNOWN_MAX_S
from kraft.wire.declaration import ZERO_UUID, replace
from kraft.wire.schema.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kraft.wire.schema.create_topics import (
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
from kraft.wire.schema.describe_configs import DescribeConfigsResourceResult
from tests.support.cluster_images import ORDERS, cluster, with_topic
from tests.support.server.fake_controllers import FakeControllers
from tests.unit.server.handlers.loader import Loader

IMAGE = with_topic(cluster(1), [1])
OWN = {"retention.ms": "5"}
CREATE = CreateTopicsRequest(topics=(new_topic("orders", configs=OWN), new_topic("no!", configs=OWN)))
CREATED = CreateTopicsResponse(
    topics=(
        CreatableTopicResult(name="orders", topic_id=ORDERS, error_code=ErrorCode.NONE, error_message=None),
        CreatableTopicResult(name="no!", error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, error_message="no"),
    )
)
DELETE = DeleteTopicsRequest(topics=(DeleteTopicState(name="orders", topic_id=ZERO_UUID),), timeout_ms=30_000)
DELETED = DeleteTopicsResponse(
    responses=(DeletableTopicResult(name="orders", topic_id=ORDERS, error_code=ErrorCode.NONE),)
)
LATE = Refusal(ErrorCode.REQUEST_TIMED_OUT, "late")


class Configs:
    """Describes the topic's own configs, and no others."""

    def in_effect_on_topic(self, own: Mapping[str, str]) -> list[DescribeConfigsResourceResult]:
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


CONFIGS = cast(DescribeConfigsHandler, Configs())


# --- creation ----------------------------------------------------------------------------------------------------


async def test_created_topics_are_answered_when_this_broker_has_applied_them() -> None:
    loader = Loader()
    forwarder = FakeControllers(create_topics=CREATED).forwarder(loader)
    answer = asyncio.ensure_future(topics.create(forwarder, CONFIGS, CREATE))
    await asyncio.sleep(0.5)
    assert not answer.done()
    loader.image = IMAGE
    created, refused = (await answer).topics
    assert (created.name, created.topic_id, created.error_code) == ("orders", ORDERS, ErrorCode.NONE)
    # Both protocols show the configs in effect here.
    own = CreatableTopicConfigs(
        name="retention.ms",
        value="5",
        read_only=False,
        config_source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
        is_sensitive=False,
    )
    assert created.configs == (own,)
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "no")
    assert refused.configs == ()


async def test_a_broker_that_hears_late_of_the_topic_answers_all_the_same() -> None:
    began = asyncio.get_running_loop().time()
    forwarder = FakeControllers(create_topics=CREATED).forwarder(Loader())
    assert len((await topics.create(forwarder, CONFIGS, CREATE)).topics) == 2
    assert asyncio.get_running_loop().time() - began == pytest.approx(LOCALLY_KNOWN_MAX_S, abs=0.1)


def test_a_creation_that_is_refused_as_a_whole_is_refused_for_each_name() -> None:
    twice = CreateTopicsRequest(topics=(new_topic("a"), new_topic("b"), new_topic("a")))
    assert topics.creation_refused(twice, LATE).topics == tuple(
        CreatableTopicResult(name=name, error_code=ErrorCode.REQUEST_TIMED_OUT, error_message="late", configs=())
        for name in ("a", "b")
    )


# --- deletion ----------------------------------------------------------------------------------------------------


async def test_who_deletes_a_topic_is_answered_when_this_broker_has_let_it_go() -> None:
    loader = Loader(IMAGE)
    forwarder = FakeControllers(delete_topics=DELETED).forwarder(loader)
    answer = asyncio.ensure_future(topics.delete(forwarder, True, DELETE))
    await asyncio.sleep(0.5)
    assert not answer.done()
    loader.image = cluster(1)
    assert await answer == DELETED


async def test_where_deletion_is_switched_off_no_controller_is_asked() -> None:
    controllers = FakeControllers()
    with pytest.raises(Refusal, match=r"delete\.topic\.enable=true") as refused:
        await topics.delete(controllers.forwarder(Loader(IMAGE)), False, DELETE)
    assert refused.value.error_code is ErrorCode.TOPIC_DELETION_DISABLED
    assert controllers.asked == []


def test_a_deletion_that_is_refused_as_a_whole_names_every_topic_as_the_request_does() -> None:
    by_id = UUID(int=5)
    request = replace(DELETE, topics=(*DELETE.topics, DeleteTopicState(name=None, topic_id=by_id)))
    results = topics.deletion_refused(request, LATE).responses
    assert [(each.name, each.topic_id) for each in results] == [("orders", ZERO_UUID), (None, by_id)]
    assert {(each.error_code, each.error_message) for each in results} == {(ErrorCode.REQUEST_TIMED_OUT, "late")}


@pytest.mark.parametrize("version", [*DeleteTopicsRequest.versions])
def test_older_versions_name_topics_without_ids(version: int) -> None:
    asked = DELETE if version >= 6 else DeleteTopicsRequest(topic_names=("orders",), timeout_ms=30_000)
    assert topics.deletion_from_version(asked, version).topics == DELETE.topics


@pytest.mark.parametrize("version", [*DeleteTopicsRequest.versions])
def test_disabled_deletion_is_answered_with_a_code_that_the_client_knows(version: int) -> None:
    disabled = topics.deletion_refused(DELETE, Refusal(ErrorCode.TOPIC_DELETION_DISABLED, "disabled"))
    (result,) = topics.deletion_to_version(DELETE, disabled, version).responses
    expected = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert (result.name, result.error_code) == ("orders", expected)
    assert topics.deletion_to_version(DELETE, DELETED, version) == DELETED


# --- more partitions ---------------------------------------------------------------------------------------------


def test_partitions_have_grown_once_the_image_has_those_that_were_not_refused() -> None:
    wanted = tuple(CreatePartitionsTopic(name=name, count=3, assignments=None) for name in ("orders", "none"))
    request = CreatePartitionsRequest(topics=wanted, timeout_ms=1, validate_only=False)
    decision = create_partitions(IMAGE, request, placement_start=0)
    assert [each.error_code for each in decision.response.results] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert not topics.has_grown(IMAGE, request, decision.response)
    assert not topics.has_grown(cluster(1), request, decision.response)
    assert topics.has_grown(IMAGE.replay(decision.records), request, decision.response)


def test_a_growth_that_is_refused_as_a_whole_is_refused_for_each_name() -> None:
    wanted = tuple(CreatePartitionsTopic(name=name, count=3, assignments=None) for name in "aba")
    request = CreatePartitionsRequest(topics=wanted, timeout_ms=1, validate_only=False)
    results = topics.partitions_refused(request, LATE).results
    assert [(each.name, each.error_code, each.error_message) for each in results] == [
        ("a", ErrorCode.REQUEST_TIMED_OUT, "late"),
        ("b", ErrorCode.REQUEST_TIMED_OUT, "late"),
    ]


async def test_a_refusal_of_the_request_as_a_whole_is_passed_on() -> None:
    refusal = Refusal(ErrorCode.INVALID_REQUEST, "split the request")
    forwarder = FakeControllers(create_topics=refusal, delete_topics=LATE).forwarder(Loader())
    with pytest.raises(Refusal, match="split the request"):
        await topics.create(forwarder, CONFIGS, CREATE)
    with pytest.raises(Refusal, match="late"):
        await topics.delete(forwarder, True, DELETE)
