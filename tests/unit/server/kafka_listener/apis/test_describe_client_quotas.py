from __future__ import annotations

import asyncio

import pytest

from kraft.model.client_quotas import DescribeClientQuotasRequest as Asked
from kraft.model.client_quotas import DescribeClientQuotasResponse as Answer
from kraft.model.client_quotas import QuotaDescription, QuotaEntity, QuotaFilter, QuotaMatch, QuotaValue
from kraft.model.errors import ErrorCode
from kraft.server.kafka_listener.apis.describe_client_quotas import DescribeClientQuotasApi
from kraft.wire.schema.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tests.unit.server.kafka_listener.apis.listener import answered, versions_of


def component(match_type: int, match: str | None) -> ComponentData:
    return ComponentData(entity_type="user", match_type=match_type, match=match)


async def handle(request: Asked) -> Answer:
    assert request == Asked(
        filters=[
            QuotaFilter(entity_type="user", match=QuotaMatch.EXACT, name="ann"),
            QuotaFilter(entity_type="user", match=QuotaMatch.ANY),
        ],
        strict=True,
    )
    entity = [QuotaEntity(entity_type="user", name="ann"), QuotaEntity(entity_type="client-id", name=None)]
    return Answer(quotas=[QuotaDescription(entity=entity, quotas=[QuotaValue(key="producer_byte_rate", value=1e6)])])


@pytest.mark.parametrize("version", versions_of(DescribeClientQuotasRequest))
def test_matching_quotas_are_described(version: int) -> None:
    request = DescribeClientQuotasRequest(components=(component(0, "ann"), component(2, None)), strict=True)
    api = DescribeClientQuotasApi(handle)
    response = asyncio.run(answered(api, request, version, DescribeClientQuotasResponse))
    assert (response.error_code, response.error_message) == (0, "")
    assert response.entries is not None
    (entry,) = response.entries
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == [("user", "ann"), ("client-id", None)]
    assert [(each.key, each.value) for each in entry.values] == [("producer_byte_rate", 1e6)]


@pytest.mark.parametrize(
    ("match_type", "match"), [(0, None), (1, "ann"), (2, "ann"), (3, None)], ids=["exact", "default", "any", "unknown"]
)
def test_a_filter_that_means_nothing_is_refused(match_type: int, match: str | None) -> None:
    request = DescribeClientQuotasRequest(components=(component(match_type, match),), strict=False)
    response = asyncio.run(answered(DescribeClientQuotasApi(handle), request, 1, DescribeClientQuotasResponse))
    assert (response.error_code, response.entries) == (ErrorCode.INVALID_REQUEST, None)
    assert response.error_message
