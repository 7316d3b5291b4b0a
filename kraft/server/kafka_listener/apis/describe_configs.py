"""DescribeConfigs: list config values with their sources and meanings (KIP-133, KIP-226, KIP-569)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import configs as values
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

Handle = Callable[[values.DescribeConfigsRequest], Awaitable[values.DescribeConfigsResponse]]


class DescribeConfigsApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: DescribeConfigsRequest, call: RequestContext) -> DescribeConfigsResponse:
        answer = await self._handle(
            values.DescribeConfigsRequest(
                resources=[
                    values.ConfigResource(
                        resource_type=values.ConfigResourceType(resource.resource_type),
                        resource_name=resource.resource_name,
                        keys=list(resource.configuration_keys or ()),
                    )
                    for resource in request.resources
                ],
                include_synonyms=request.include_synonyms,
                include_documentation=request.include_documentation,
            )
        )
        return DescribeConfigsResponse(
            results=tuple(map(_result, request.resources, answer.results)),
        )


def _result(asked: DescribeConfigsResource, described: values.ResourceDescription) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=described.error_code,
        error_message=described.error_message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=tuple(map(_config, described.entries)),
    )


def _config(entry: values.ConfigEntry) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.key,
        value=None if entry.is_sensitive else entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(
                name=synonym.key, value=None if entry.is_sensitive else synonym.value, source=synonym.source
            )
            for synonym in entry.synonyms
        ),
        config_type=entry.type,
        documentation=entry.documentation or None,
    )
