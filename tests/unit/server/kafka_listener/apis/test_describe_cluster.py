from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kraft.metadata.records import BrokerFenced
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId
from kraft.model.metadata import BrokerEndpoint, MetadataRequest, MetadataResponse
from kraft.server.handlers.authorized_operations import NOT_ASKED, ON_CLUSTER
from kraft.server.kafka_listener.apis.describe_cluster import DescribeClusterApi
from kraft.wire.schema.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.support.cluster_images import CLUSTER, cluster, epoch_of
from tests.unit.server.kafka_listener.apis.listener import LISTENER, answered, versions_of

METADATA = MetadataResponse(
    cluster_id=CLUSTER,
    controller_id=1,
    brokers=[
        BrokerEndpoint(broker_id=1, host="one", port=9092),
        BrokerEndpoint(broker_id=2, host="two", port=9092, rack="cellar"),
    ],
    topics=[],
)


def described(
    version: int = 2,
    *,
    metadata: MetadataResponse = METADATA,
    endpoint_type: int = 1,
    fenced: bool = False,
    operations: bool = False,
) -> DescribeClusterResponse:
    async def handle(request: MetadataRequest) -> MetadataResponse:
        assert not request.topics
        assert not request.all_topics
        return metadata

    image = cluster(1, 2, 3)
    image = image.replay([BrokerFenced(broker_id=BrokerId(3), broker_epoch=epoch_of(image, 3))])
    api = DescribeClusterApi(handle, lambda: image, LISTENER, BrokerId(2))
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=operations, endpoint_type=endpoint_type, include_fenced_brokers=fenced
    )
    return asyncio.run(answered(api, request, version, DescribeClusterResponse))


@pytest.mark.parametrize("version", versions_of(DescribeClusterRequest))
def test_the_cluster_is_described(version: int) -> None:
    response = described(version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, CLUSTER, 1)
    assert [(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in response.brokers] == [
        (1, "one", 9092, None, False),
        (2, "two", 9092, "cellar", False),
    ]
    assert response.cluster_authorized_operations == NOT_ASKED


def test_authorized_operations_are_answered_when_asked_for() -> None:
    assert described(operations=True).cluster_authorized_operations == ON_CLUSTER


def test_fenced_brokers_are_listed_when_asked_for() -> None:
    brokers = described(fenced=True).brokers
    assert [(each.broker_id, each.is_fenced) for each in brokers] == [(1, False), (2, False), (3, True)]


def test_this_broker_stands_in_for_a_controller_that_is_not_a_broker() -> None:
    assert described(metadata=replace(METADATA, controller_id=9)).controller_id == 2


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
    ids=["controllers", "unknown"],
)
def test_this_is_the_address_of_a_broker(endpoint_type: int, code: ErrorCode) -> None:
    response = described(endpoint_type=endpoint_type)
    assert (response.error_code, response.endpoint_type, response.brokers) == (code, 1, ())
    assert response.error_message
