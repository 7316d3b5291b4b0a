from __future__ import annotations

import asyncio

import pytest

from kraft.metadata.records import BrokerFenced
from kraft.model.errors import ErrorCode
from kraft.model.ids import BrokerId
from kraft.server.handlers.authorized_operations import NOT_ASKED, ON_CLUSTER
from kraft.server.handlers.describe_cluster import DescribeClusterHandler, refused
from kraft.server.kafka_listener.handled import HandledApi
from kraft.wire.api_keys import ApiKey
from kraft.wire.schema.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.support.cluster_images import CLUSTER, cluster, epoch_of
from tests.unit.server.kafka_listener.apis.listener import LISTENER, answered, versions_of


def described(
    version: int = 2, *, endpoint_type: int = 1, fenced: bool = False, operations: bool = False
) -> DescribeClusterResponse:
    image = cluster(1, 2, 3, racks={2: "cellar"})
    image = image.replay([BrokerFenced(broker_id=BrokerId(3), broker_epoch=epoch_of(image, 3))])
    api = HandledApi(
        ApiKey.DESCRIBE_CLUSTER, DescribeClusterHandler(lambda: image, LISTENER, max).handle, refused=refused
    )
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=operations, endpoint_type=endpoint_type, include_fenced_brokers=fenced
    )
    return asyncio.run(answered(api, request, version, DescribeClusterResponse))


@pytest.mark.parametrize("version", versions_of(DescribeClusterRequest))
def test_the_cluster_is_described(version: int) -> None:
    response = described(version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, CLUSTER, 2)
    assert [(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in response.brokers] == [
        (1, "localhost", 9095, None, False),
        (2, "localhost", 9096, "cellar", False),
    ]
    assert response.cluster_authorized_operations == NOT_ASKED


def test_authorized_operations_are_answered_when_asked_for() -> None:
    assert described(operations=True).cluster_authorized_operations == ON_CLUSTER


def test_fenced_brokers_are_listed_when_asked_for() -> None:
    brokers = described(fenced=True).brokers
    assert [(each.broker_id, each.is_fenced) for each in brokers] == [(1, False), (2, False), (3, True)]


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
    ids=["controllers", "unknown"],
)
def test_this_is_the_address_of_a_broker(endpoint_type: int, code: ErrorCode) -> None:
    response = described(endpoint_type=endpoint_type)
    assert (response.error_code, response.endpoint_type, response.brokers) == (code, 1, ())
    assert response.error_message
