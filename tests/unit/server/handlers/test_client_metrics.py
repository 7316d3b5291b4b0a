from __future__ import annotations

from uuid import UUID

import pytest

from kraft.model.errors import ErrorCode, Refusal
from kraft.runtime.entropy import SystemEntropy
from kraft.server.handlers.client_metrics import ClientMetricsHandler, push
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kraft.wire.schema.push_telemetry import PushTelemetryRequest

CLIENT = UUID("0b5e7a32-58e5-4c5f-9b6c-0f1c1f1f0001")
RESERVED = UUID(int=1)


async def subscriptions(client: UUID) -> GetTelemetrySubscriptionsResponse:
    handler = ClientMetricsHandler(SystemEntropy())
    return await handler.subscriptions(GetTelemetrySubscriptionsRequest(client_instance_id=client))


async def test_no_metrics_are_wanted_for_five_minutes() -> None:
    answer = await subscriptions(CLIENT)
    assert (answer.error_code, answer.requested_metrics, answer.push_interval_ms) == (ErrorCode.NONE, (), 300_000)
    assert answer.client_instance_id == CLIENT


async def test_a_client_without_an_id_gets_one_of_its_own() -> None:
    given = [(await subscriptions(ZERO_UUID)).client_instance_id for _ in range(2)]
    assert len({ZERO_UUID, *given}) == 3


@pytest.mark.parametrize(
    ("client", "error_code"),
    [
        (CLIENT, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        (ZERO_UUID, ErrorCode.INVALID_REQUEST),
        (RESERVED, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_metrics_that_nobody_asked_for_are_refused(client: UUID, error_code: ErrorCode) -> None:
    request = PushTelemetryRequest(
        client_instance_id=client, subscription_id=7, terminating=False, compression_type=0, metrics=b""
    )
    with pytest.raises(Refusal) as refused:
        await push(request)
    assert refused.value.error_code is error_code
