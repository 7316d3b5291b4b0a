from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from kraft.model.configs import (
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    ResourceDescription,
)
from kraft.model.configs import DescribeConfigsRequest as Asked
from kraft.model.configs import DescribeConfigsResponse as Answer
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.apis.describe_configs import DescribeConfigsApi
from kraft.wire.schema.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of

RETENTION = ConfigEntry(
    key="retention.ms",
    value="5",
    source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
    is_default=False,
    read_only=False,
    type=ConfigType.LONG,
    documentation="How long.",
    synonyms=[
        ConfigSynonym(key="retention.ms", value="5", source=ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ConfigSynonym(key="log.retention.ms", value=None, source=ConfigSource.DEFAULT_CONFIG),
    ],
)


def describing(entry: ConfigEntry) -> Callable[[Asked], Awaitable[Answer]]:
    async def handle(request: Asked) -> Answer:
        results = [
            ResourceDescription(resource_type=each.resource_type, resource_name=each.resource_name, entries=[entry])
            for each in request.resources
        ]
        return Answer(results=results)

    return handle


def resource(kind: int, name: str, *keys: str) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)


@pytest.mark.parametrize("version", versions_of(DescribeConfigsRequest))
def test_a_config_is_described_with_its_source_and_synonyms(version: int) -> None:
    request = DescribeConfigsRequest(
        resources=(resource(2, "orders"),), include_synonyms=True, include_documentation=version >= 3
    )
    api = DescribeConfigsApi(describing(RETENTION))
    (result,) = asyncio.run(answered(api, request, version, DescribeConfigsResponse)).results
    assert (result.error_code, result.error_message, result.resource_type, result.resource_name) == (
        0,
        "",
        2,
        "orders",
    )
    (config,) = result.configs
    assert (config.name, config.value, config.read_only, config.config_source) == ("retention.ms", "5", False, 1)
    assert [(each.name, each.value, each.source) for each in config.synonyms] == [
        ("retention.ms", "5", 1),
        ("log.retention.ms", None, 5),
    ]
    assert (config.config_type, config.documentation) == ((5, "How long.") if version >= 3 else (0, ""))


def test_the_request_is_passed_to_the_handler() -> None:
    asked = []

    async def handle(request: Asked) -> Answer:
        asked.append(request)
        return await describing(replace(RETENTION, documentation=""))(request)

    request = DescribeConfigsRequest(resources=(resource(2, "orders", "retention.ms"), resource(4, "1")))
    response = asyncio.run(answered(DescribeConfigsApi(handle), request, 4, DescribeConfigsResponse))
    assert asked == [
        Asked(
            resources=[
                ConfigResource(resource_type=ConfigResourceType.TOPIC, resource_name="orders", keys=["retention.ms"]),
                ConfigResource(resource_type=ConfigResourceType.BROKER, resource_name="1"),
            ]
        )
    ]
    assert response.results[0].configs[0].documentation is None


def test_a_resource_that_is_named_a_thousand_times_is_described_once() -> None:
    resources = (resource(2, "orders"), resource(4, "1"), resource(2, "orders", "retention.ms")) * 1_000
    api = DescribeConfigsApi(describing(RETENTION))
    request = DescribeConfigsRequest(resources=resources)
    response = asyncio.run(answered(api, request, 4, DescribeConfigsResponse))
    assert [(each.resource_type, each.resource_name) for each in response.results] == [
        (2, "orders"),
        (4, "1"),
        (2, "orders"),
    ]


def test_the_value_of_a_secret_is_not_described() -> None:
    request = DescribeConfigsRequest(resources=(resource(4, "1"),), include_synonyms=True)
    api = DescribeConfigsApi(describing(replace(RETENTION, is_sensitive=True)))
    (result,) = asyncio.run(answered(api, request, 4, DescribeConfigsResponse)).results
    (config,) = result.configs
    assert (config.value, {each.value for each in config.synonyms}) == (None, {None})


def test_a_refusal_has_the_resource_type_that_the_client_used() -> None:
    async def handle(request: Asked) -> Answer:
        (asked,) = request.resources
        assert asked.resource_type is ConfigResourceType.UNKNOWN
        refused = ResourceDescription(
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="no such thing",
        )
        return Answer(results=[refused])

    request = DescribeConfigsRequest(resources=(resource(99, "what"),))
    (result,) = asyncio.run(answered(DescribeConfigsApi(handle), request, 4, DescribeConfigsResponse)).results
    assert (result.resource_type, result.error_code, result.error_message, result.configs) == (
        99,
        ErrorCode.INVALID_REQUEST,
        "no such thing",
        (),
    )
