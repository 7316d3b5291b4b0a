from __future__ import annotations

import asyncio

from kraft.model.errors import ErrorCode
from kraft.server.handlers.list_config_resources import list_config_resources
from kraft.server.kafka_listener.apis.list_config_resources import ListConfigResourcesApi
from kraft.wire.schema.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from tests.unit.server.kafka_listener.apis.listener import IMAGE, answered

TOPIC, BROKER = 2, 4


def listed(version: int, *types: int) -> tuple[int, list[tuple[int, str]]]:
    api = ListConfigResourcesApi(lambda types: list_config_resources(IMAGE, types))
    request = ListConfigResourcesRequest(resource_types=types)
    response = asyncio.run(answered(api, request, version, ListConfigResourcesResponse))
    return response.error_code, [(each.resource_type, each.resource_name) for each in response.config_resources]


def test_without_types_everything_is_listed() -> None:
    assert listed(1) == (0, [(TOPIC, "orders"), (BROKER, "1"), (BROKER, "2")])


def test_only_those_of_the_types_are_listed_and_once() -> None:
    assert listed(1, TOPIC, TOPIC) == (0, [(TOPIC, "orders")])


def test_a_type_that_does_not_exist_is_refused() -> None:
    assert listed(1, TOPIC, 99) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_the_first_version_lists_client_metrics_of_which_there_are_none() -> None:
    assert listed(0) == (0, [])
