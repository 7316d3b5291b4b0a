"""AlterConfigs: replace all configs of a resource; omitted ones return to their defaults (KIP-133)."""

from __future__ import annotations

from kraft.model import configs as values
from kraft.server.kafka_listener.apis.config_alterations import Alterations, Handle
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


class AlterConfigsApi:
    def __init__(self, handle: Handle) -> None:
        self._alterations = Alterations(handle)

    async def __call__(self, request: AlterConfigsRequest, call: RequestContext) -> AlterConfigsResponse:
        responses = await self._alterations.responses(
            request.resources, _wanted, AlterConfigsResourceResponse, validate_only=request.validate_only
        )
        return AlterConfigsResponse(responses=responses)


def _wanted(resource: AlterConfigsResource) -> values.ResourceAlteration:
    return values.ResourceAlteration(
        resource_type=values.ConfigResourceType(resource.resource_type),
        resource_name=resource.resource_name,
        alterations=[
            values.ConfigAlteration(key=config.name, operation=values.ConfigOperation.SET, value=config.value)
            for config in resource.configs
        ],
        replaces=True,
    )
