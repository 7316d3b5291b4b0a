"""AlterConfigs and IncrementalAlterConfigs: forwarded to and decided by the active controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraft.metadata.config_decisions import NodeConfigs, resource_responses
from kraft.metadata.decision import Decision
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.handlers.forwarding import IsApplied
from kraft.wire.declaration import replace
from kraft.wire.schema.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kraft.wire.schema.alter_configs import AlterConfigsResourceResponse as AllResponse
from kraft.wire.schema.incremental_alter_configs import AlterConfigsResourceResponse as OneByOneResponse
from kraft.wire.schema.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

Decide = Callable[[MetadataImage, Any, NodeConfigs], Decision[Any]]


def is_applied(decide: Decide, node_configs: Callable[[MetadataImage], NodeConfigs]) -> IsApplied[Any, Any]:
    """Return what says whether an image shows the alterations that were not refused."""

    def holds(image: MetadataImage, request: Any, response: Any) -> bool:
        altered = tuple(
            resource
            for resource, result in zip(request.resources, response.responses, strict=True)
            if result.error_code == ErrorCode.NONE
        )
        # This image has the change if deciding the same request on it changes nothing.
        return not decide(image, replace(request, resources=altered), node_configs(image)).records

    return holds


def all_refused(request: AlterConfigsRequest, refusal: Refusal) -> AlterConfigsResponse:
    refusals = [refusal] * len(request.resources)
    return AlterConfigsResponse(responses=resource_responses(AllResponse, request.resources, refusals))


def one_by_one_refused(request: IncrementalAlterConfigsRequest, refusal: Refusal) -> IncrementalAlterConfigsResponse:
    refusals = [refusal] * len(request.resources)
    return IncrementalAlterConfigsResponse(responses=resource_responses(OneByOneResponse, request.resources, refusals))
