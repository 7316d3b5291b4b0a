from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from kraft.metadata.image import MetadataImage
from kraft.metadata.records import BrokerFenced, BrokerUnfenced, PartitionChanged
from kraft.model.endpoint import Endpoint
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch
from kraft.server.handlers.authorized_operations import NOT_ASKED
from kraft.server.handlers.metadata import MetadataHandler, from_version, reused_for, to_version
from kraft.server.kafka_listener.encoded_responses import EncodedResponses
from kraft.server.kafka_listener.handled import HandledApi, Reuse
from kraft.wire.api_keys import ApiKey
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kraft.wire.schema.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.cluster_images import CLUSTER, ORDERS, cluster, epoch_of, registered, with_topic
from tests.support.server.fake_controllers import FakeControllers
from tests.support.virtual_time import run_virtually
from tests.unit.server.handlers.described_metadata import metadata_handler
from tests.unit.server.kafka_listener.apis.listener import UNKNOWN_ID, answered, versions_of

VERSIONS = versions_of(MetadataRequest)
IMAGE = with_topic(cluster(1, 2, racks={2: "cellar"}), [1, 2], [2, 1])

ON_TOPIC = 0b1101_1111_1000
"""Read, write, create, delete, alter, describe, describe and alter configs: bits 3 to 8, 10 and 11 (KIP-430)."""


def kafka_api(handler: MetadataHandler, reuse: Reuse | None = None) -> HandledApi:
    return HandledApi(ApiKey.METADATA, handler.handle, from_version=from_version, to_version=to_version, reuse=reuse)


def ask(
    version: int,
    *names: str,
    image: MetadataImage = IMAGE,
    controllers: FakeControllers | None = None,
    auto_create: bool = True,
    fenced_lately: tuple[BrokerId, ...] = (),
    **fields: Any,
) -> MetadataResponse:
    handler = metadata_handler(
        image, controllers or FakeControllers(), auto_create=auto_create, listed_though_fenced=lambda: fenced_lately
    )
    topics = tuple(MetadataRequestTopic(name=name) for name in names)
    request = MetadataRequest(**{"topics": topics} | fields)
    response: MetadataResponse = run_virtually(answered(kafka_api(handler), request, version, MetadataResponse))
    return response


def named(response: MetadataResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in response.topics]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_described_with_its_leaders(version: int) -> None:
    (topic,) = ask(version, "orders").topics
    assert topic == MetadataResponseTopic(
        error_code=0,
        name="orders",
        topic_id=ORDERS if version >= 10 else ZERO_UUID,
        partitions=tuple(
            MetadataResponsePartition(
                error_code=0,
                partition_index=index,
                leader_id=replicas[0],
                leader_epoch=0 if version >= 7 else -1,
                replica_nodes=replicas,
                isr_nodes=replicas,
            )
            for index, replicas in enumerate([(1, 2), (2, 1)])
        ),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_cluster_and_its_brokers_are_described(version: int) -> None:
    response = ask(version, "orders")
    assert [(each.node_id, each.host, each.port, each.rack) for each in response.brokers] == [
        (1, "localhost", 9095, None),
        (2, "localhost", 9096, "cellar" if version >= 1 else None),
    ]
    assert response.cluster_id == (CLUSTER if version >= 2 else None)
    assert response.controller_id == (1 if version >= 1 else -1)


def test_no_names_are_all_topics_in_the_oldest_version() -> None:
    assert named(ask(0)) == [("orders", 0)]


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_no_names_are_no_topics_and_null_is_all_of_them_later(version: int) -> None:
    assert named(ask(version)) == []
    assert named(ask(version, topics=None)) == [("orders", 0)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_is_named_twice_is_described_once(version: int) -> None:
    assert named(ask(version, "orders", "orders")) == [("orders", 0)]


@pytest.mark.parametrize("name", ["a/b", "", ".."])
def test_a_name_that_no_topic_can_have_is_refused_for_good(name: str) -> None:
    for version in (version for version in VERSIONS if version >= 4):
        response = ask(version, name, allow_auto_topic_creation=False)
        assert named(response) == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_does_not_exist_is_created_when_the_client_lets_us(version: int) -> None:
    def create(request: CreateTopicsRequest) -> CreateTopicsResponse:
        created = (CreatableTopicResult(name=new.name, error_code=0, error_message=None) for new in request.topics)
        return CreateTopicsResponse(topics=tuple(created))

    controllers = FakeControllers(create_topics=create)
    response = ask(version, "payments", "orders", controllers=controllers)
    assert named(response) == [("payments", ErrorCode.LEADER_NOT_AVAILABLE), ("orders", 0)]
    assert len(controllers.requests("create_topics")) == 1


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 4])
def test_a_topic_that_does_not_exist_is_not_created_against_the_clients_will(version: int) -> None:
    response = ask(version, "payments", allow_auto_topic_creation=False)
    assert named(response) == [("payments", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_does_not_exist_is_not_created_where_that_is_off(version: int) -> None:
    assert named(ask(version, "payments", auto_create=False)) == [("payments", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 10])
def test_topics_are_found_by_their_ids(version: int) -> None:
    asked = (
        MetadataRequestTopic(topic_id=ORDERS, name=None),
        MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None),
    )
    known, unknown = ask(version, topics=asked).topics
    assert (known.name, known.topic_id, known.error_code, len(known.partitions)) == ("orders", ORDERS, 0, 2)
    assert (unknown.topic_id, unknown.error_code, unknown.partitions) == (UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID, ())
    assert unknown.name == (None if version >= 12 else "")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_replica_on_a_broker_that_is_away_is_offline_and_a_partition_without_a_leader_says_so(version: int) -> None:
    image = with_topic(cluster(1, 2), [1], [2, 1])
    image = image.replay([BrokerFenced(broker_id=BrokerId(1), broker_epoch=epoch_of(image, 1))])
    (topic,) = ask(version, "orders", image=image).topics
    assert [each.offline_replicas for each in topic.partitions] == ([(1,), (1,)] if version >= 5 else [(), ()])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_that_was_fenced_a_moment_ago_is_still_listed_and_leads_nothing(version: int) -> None:
    image = IMAGE.replay([BrokerFenced(broker_id=BrokerId(1), broker_epoch=epoch_of(IMAGE, 1))])
    moved = PartitionChanged(
        topic_id=ORDERS,
        partition=0,
        leader=BrokerId(2),
        isr=[BrokerId(2)],
        leader_epoch=LeaderEpoch(1),
        partition_epoch=PartitionEpoch(1),
    )
    image = image.replay([moved])
    response = ask(version, "orders", image=image, fenced_lately=(BrokerId(1),))
    assert [(each.node_id, each.host, each.port) for each in response.brokers] == [
        (1, "localhost", 9095),
        (2, "localhost", 9096),
    ]
    assert response.controller_id == (2 if version >= 1 else -1)
    first = response.topics[0].partitions[0]
    assert (first.leader_id, first.error_code) == (2, ErrorCode.NONE)
    assert first.offline_replicas == ((1,) if version >= 5 else ())
    assert [each.node_id for each in ask(version, "orders", image=image).brokers] == [2]


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_the_response_for_all_topics_is_made_again_when_a_broker_is_no_longer_listed(version: int) -> None:
    image = IMAGE.replay([BrokerFenced(broker_id=BrokerId(1), broker_epoch=epoch_of(IMAGE, 1))])
    listed: list[BrokerId] = [BrokerId(1)]

    handler = metadata_handler(image, FakeControllers(), listed_though_fenced=lambda: listed)
    reuse = Reuse(EncodedResponses(lambda: image), lambda request: reused_for(request, tuple(listed)))
    api = kafka_api(handler, reuse)

    async def scenario() -> list[list[int]]:
        found = []
        for now_listed in ([BrokerId(1)], []):
            listed[:] = now_listed
            response = await answered(api, MetadataRequest(topics=None), version, MetadataResponse)
            found.append([each.node_id for each in response.brokers])
        return found

    assert run_virtually(scenario()) == [[1, 2], [2]]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_leader_that_has_no_listener_of_the_clients_name_is_no_leader_to_it(version: int) -> None:
    both = [Endpoint(listener="INSIDE", host="inside", port=9092), *registered(1, epoch=3).endpoints]
    again = structs.replace(registered(1, epoch=3), endpoints=both)
    image = cluster(1, 2).replay([again, BrokerUnfenced(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(3))])
    handler = metadata_handler(with_topic(image, [1, 2], [2, 1]), FakeControllers(), listener="INSIDE")
    request = MetadataRequest(topics=(MetadataRequestTopic(name="orders"),))
    response = run_virtually(answered(kafka_api(handler), request, version, MetadataResponse))
    assert [each.host for each in response.brokers] == ["inside"]
    (topic,) = response.topics
    code = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    assert [(each.leader_id, each.error_code) for each in topic.partitions] == [(1, ErrorCode.NONE), (-1, code)]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 8])
def test_authorized_operations_are_answered_when_asked_for(version: int) -> None:
    asked: dict[str, Any] = {"include_topic_authorized_operations": True}
    if version <= 10:
        asked["include_cluster_authorized_operations"] = True
    response = ask(version, "orders", **asked)
    assert response.topics[0].topic_authorized_operations == ON_TOPIC
    assert (response.cluster_authorized_operations > 0) == (version <= 10)
    unasked = ask(version, "orders")
    assert unasked.topics[0].topic_authorized_operations == NOT_ASKED
    assert unasked.cluster_authorized_operations == NOT_ASKED


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_marked(name: str) -> None:
    image = with_topic(cluster(1), [1], topic=name)
    (topic,) = ask(13, name, image=image).topics
    assert topic.is_internal
    assert not ask(13, "orders").topics[0].is_internal
