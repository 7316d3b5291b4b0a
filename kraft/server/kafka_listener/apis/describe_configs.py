"""DescribeConfigs: list config values with their sources and meanings (KIP-133, KIP-226, KIP-569)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import configs as values
from kraft.server.handlers.describe_configs import ENTRIES_AT_ONCE
from kraft.server.kafka_listener.encoded_responses import encoded
from kraft.server.kafka_listener.requests import EncodedMessage, RequestContext
from kraft.server.loop.turns import Turns
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

    async def __call__(self, request: DescribeConfigsRequest, call: RequestContext) -> EncodedMessage:
        # The handler describes a resource once, however often it is named.
        asked = {
            (values.ConfigResourceType(each.resource_type), each.resource_name, each.configuration_keys or ()): each
            for each in request.resources
        }
        answer = await self._handle(
            values.DescribeConfigsRequest(
                resources=[
                    values.ConfigResource(resource_type=kind, resource_name=name, keys=list(keys))
                    for kind, name, keys in asked
                ],
                include_synonyms=request.include_synonyms,
                include_documentation=request.include_documentation,
            )
        )
        turns, results = Turns(ENTRIES_AT_ONCE), []
        for resource, described in zip(asked.values(), answer.results, strict=True):
            results.append(_result(resource, described))
            await turns.done(1 + len(described.entries))
        entries = sum(1 + len(described.entries) for described in answer.results)
        return await encoded(DescribeConfigsResponse(results=tuple(results)), call.version, entries)


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
