"""DescribeClientQuotas: list the quotas that a filter matches (KIP-546)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kraft.model import client_quotas as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

Handle = Callable[[values.DescribeClientQuotasRequest], Awaitable[values.DescribeClientQuotasResponse]]


class DescribeClientQuotasApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(
        self, request: DescribeClientQuotasRequest, call: RequestContext
    ) -> DescribeClientQuotasResponse:
        try:
            filters = [_filter(component) for component in request.components]
            answer = await self._handle(values.DescribeClientQuotasRequest(filters=filters, strict=request.strict))
        except Refusal as refusal:
            return DescribeClientQuotasResponse(
                error_code=refusal.error_code, error_message=refusal.message, entries=None
            )
        return DescribeClientQuotasResponse(
            error_code=ErrorCode.NONE, error_message="", entries=tuple(map(_entry, answer.quotas))
        )


def _filter(component: ComponentData) -> values.QuotaFilter:
    try:
        match = values.QuotaMatch(component.match_type)
    except ValueError:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"unknown quota match type {component.match_type}") from None
    if (component.match is not None) != (match is values.QuotaMatch.EXACT):
        problem = f"quota filter '{component.entity_type[:100]}': an exact match needs a name, the others take none"
        raise Refusal(ErrorCode.INVALID_REQUEST, problem)
    return values.QuotaFilter(entity_type=component.entity_type, match=match, name=component.match)


def _entry(described: values.QuotaDescription) -> EntryData:
    return EntryData(
        entity=tuple(EntityData(entity_type=part.entity_type, entity_name=part.name) for part in described.entity),
        values=tuple(ValueData(key=quota.key, value=quota.value) for quota in described.quotas),
    )
