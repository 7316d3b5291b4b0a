"""ListConfigResources: list the resources that have configs of their own (KIP-1142).

Version 0 is ListClientMetricsResources (KIP-714), which has only one type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kraft.model.configs import ConfigResource as Resource
from kraft.model.configs import ConfigResourceType
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

Handle = Callable[[Sequence[ConfigResourceType]], list[Resource]]

_EVERY_TYPE: Final = tuple(each for each in ConfigResourceType if each is not ConfigResourceType.UNKNOWN)

_TYPES_FROM: Final = 1


class ListConfigResourcesApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def __call__(self, request: ListConfigResourcesRequest, call: RequestContext) -> ListConfigResourcesResponse:
        if call.version < _TYPES_FROM:
            types: tuple[ConfigResourceType, ...] = (ConfigResourceType.CLIENT_METRICS,)
        else:
            types = tuple(map(ConfigResourceType, dict.fromkeys(request.resource_types))) or _EVERY_TYPE
        if ConfigResourceType.UNKNOWN in types:
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=())
        return ListConfigResourcesResponse(
            error_code=ErrorCode.NONE,
            config_resources=tuple(
                ConfigResource(resource_name=each.resource_name, resource_type=each.resource_type)
                for each in self._handle(types)
            ),
        )
