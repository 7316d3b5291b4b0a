"""ListConfigResources: the resources that have configs. Source: KIP-1142.

Version 0 is ListClientMetricsResources (KIP-714), which has only one type.
"""

from __future__ import annotations

from typing import Final

from kraft.metadata.image import MetadataImage
from kraft.model.configs import ConfigResourceType
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_EVERY_TYPE: Final = tuple(each for each in ConfigResourceType if each is not ConfigResourceType.UNKNOWN)

_TYPES_FROM: Final = 1


def list_config_resources(image: MetadataImage, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """List the resources of each type, sorted by name; of every type if none is given. Raises Refusal."""
    types = tuple(map(ConfigResourceType, dict.fromkeys(request.resource_types))) or _EVERY_TYPE
    if ConfigResourceType.UNKNOWN in types:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, "there is a resource type that this version does not know")
    return ListConfigResourcesResponse(
        error_code=ErrorCode.NONE,
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in types
            for name in _names(image, resource_type)
        ),
    )


def from_version(request: ListConfigResourcesRequest, version: int) -> ListConfigResourcesRequest:
    if version >= _TYPES_FROM:
        return request
    return ListConfigResourcesRequest(resource_types=(ConfigResourceType.CLIENT_METRICS,))


def _names(image: MetadataImage, resource_type: ConfigResourceType) -> list[str]:
    match resource_type:
        case ConfigResourceType.TOPIC:
            return sorted(image.topic_ids)
        case ConfigResourceType.BROKER:
            return [str(broker_id) for broker_id in sorted(image.brokers)]
        case ConfigResourceType.GROUP:
            return sorted(image.group_configs)
        case ConfigResourceType.CLIENT_METRICS:
            return sorted(image.client_metrics)
        case _:
            # A broker's loggers are no resources of their own here, and what is unknown was refused.
            return []
