from __future__ import annotations

import asyncio

import pytest

from kraft.model.configs import (
    ConfigAlteration,
    ConfigOperation,
    ConfigResourceType,
    ResourceAlteration,
    ResourceAlterationResult,
)
from kraft.model.configs import IncrementalAlterConfigsRequest as Asked
from kraft.model.configs import IncrementalAlterConfigsResponse as Answer
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.apis.alter_configs import AlterConfigsApi
from kraft.wire.schema.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


@pytest.mark.parametrize("version", versions_of(AlterConfigsRequest))
def test_all_configs_of_a_resource_are_replaced(version: int) -> None:
    asked = []

    async def handle(request: Asked) -> Answer:
        asked.append(request)
        result = ResourceAlterationResult(
            resource_type=ConfigResourceType.TOPIC,
            resource_name="orders",
            error_code=ErrorCode.INVALID_CONFIG,
            error_message="too long",
        )
        return Answer(results=[result])

    configs = (AlterableConfig(name="retention.ms", value="5"), AlterableConfig(name="segment.ms", value=None))
    resource = AlterConfigsResource(resource_type=2, resource_name="orders", configs=configs)
    request = AlterConfigsRequest(resources=(resource,), validate_only=True)
    (result,) = asyncio.run(answered(AlterConfigsApi(handle), request, version, AlterConfigsResponse)).responses
    assert asked[0].validate_only
    assert asked[0].resources == [
        ResourceAlteration(
            resource_type=ConfigResourceType.TOPIC,
            resource_name="orders",
            alterations=[
                ConfigAlteration(key="retention.ms", operation=ConfigOperation.SET, value="5"),
                # The decider refuses it, as it does any null value.
                ConfigAlteration(key="segment.ms", operation=ConfigOperation.SET),
            ],
            replaces=True,
        )
    ]
    assert (result.resource_type, result.resource_name) == (2, "orders")
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_CONFIG, "too long")
