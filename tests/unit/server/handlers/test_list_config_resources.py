from __future__ import annotations

import pytest

from kraft.metadata.records import ClientMetricsConfigSet, GroupConfigSet
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers.list_config_resources import from_version, list_config_resources
from kraft.wire.schema.list_config_resources import ListConfigResourcesRequest
from tests.support.cluster_images import cluster, with_topic

IMAGE = with_topic(cluster(2, 1), [1])

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32


def listed(*types: int, version: int = 1) -> list[tuple[int, str]]:
    request = from_version(ListConfigResourcesRequest(resource_types=types), version)
    response = list_config_resources(IMAGE, request)
    assert response.error_code == ErrorCode.NONE
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


def test_without_types_everything_is_listed() -> None:
    assert listed() == [(TOPIC, "orders"), (BROKER, "1"), (BROKER, "2")]


def test_groups_with_configs_of_their_own_are_listed() -> None:
    image = IMAGE.replay([GroupConfigSet(group_id="billing", key="consumer.session.timeout.ms", value="50000")])
    (found,) = list_config_resources(image, ListConfigResourcesRequest(resource_types=(GROUP,))).config_resources
    assert (found.resource_type, found.resource_name) == (GROUP, "billing")


def test_only_those_of_the_types_are_listed_and_once() -> None:
    assert listed(TOPIC, TOPIC) == [(TOPIC, "orders")]


def test_a_type_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        listed(TOPIC, 99)
    assert refused.value.error_code is ErrorCode.UNSUPPORTED_VERSION


def test_the_first_version_lists_client_metrics() -> None:
    assert listed(version=0) == []
    image = IMAGE.replay([ClientMetricsConfigSet(name="javas", key="interval.ms", value="5000")])
    request = from_version(ListConfigResourcesRequest(), 0)
    (found,) = list_config_resources(image, request).config_resources
    assert (found.resource_type, found.resource_name) == (CLIENT_METRICS, "javas")
