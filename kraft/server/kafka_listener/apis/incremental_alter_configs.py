"""IncrementalAlterConfigs: set, delete, append to and subtract from single configs (KIP-339)."""

from __future__ import annotations

from kraft.model import configs as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.config_alterations import Alterations, Handle
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class IncrementalAlterConfigsApi:
    def __init__(self, handle: Handle) -> None:
        self._alterations = Alterations(handle)

    async def __call__(
        self, request: IncrementalAlterConfigsRequest, call: RequestContext
    ) -> IncrementalAlterConfigsResponse:
        responses = await self._alterations.responses(
            request.resources, _wanted, AlterConfigsResourceResponse, validate_only=request.validate_only
        )
        return IncrementalAlterConfigsResponse(responses=responses)


def _wanted(resource: AlterConfigsResource) -> values.ResourceAlteration:
    """Convert one resource. Raises Refusal."""
    return values.ResourceAlteration(
        resource_type=values.ConfigResourceType(resource.resource_type),
        resource_name=resource.resource_name,
        alterations=[_alteration(config) for config in resource.configs],
    )


def _alteration(config: AlterableConfig) -> values.ConfigAlteration:
    try:
        operation = values.ConfigOperation(config.config_operation)
    except ValueError:
        problem = f"config '{config.name[:100]}': unknown operation {config.config_operation}"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem) from None
    # DELETE takes no value, but some clients send one.
    value = None if operation is values.ConfigOperation.DELETE else config.value
    return values.ConfigAlteration(key=config.name, operation=operation, value=value)
