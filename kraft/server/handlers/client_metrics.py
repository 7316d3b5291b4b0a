"""GetTelemetrySubscriptions and PushTelemetry: no metrics of clients are wanted. Source: KIP-714.

Without these APIs, clients look for a broker that has them, and log that there is none.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from kraft.model.errors import ErrorCode, Refusal
from kraft.runtime.entropy import Entropy, random_uuid
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kraft.wire.schema.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

PUSH_INTERVAL_MS: Final = 300_000
"""Time until a client asks again: Kafka's default interval.ms. Above 35 minutes, librdkafka's product of it and 1,000
overflows.
"""

TELEMETRY_MAX_BYTES: Final = 1_048_576
"""Kafka's default telemetry.max.bytes."""

_NO_SUBSCRIPTION: Final = 0
_RESERVED_IDS: Final = (ZERO_UUID, UUID(int=1))
_ZSTD, _LZ4, _GZIP, _SNAPPY = 4, 3, 1, 2


class ClientMetricsHandler:
    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    async def subscriptions(self, request: GetTelemetrySubscriptionsRequest) -> GetTelemetrySubscriptionsResponse:
        """Answer that no metrics are wanted, and give a client its id if it has none yet."""
        client_id = request.client_instance_id
        if client_id == ZERO_UUID:
            client_id = random_uuid(self._entropy)
        return GetTelemetrySubscriptionsResponse(
            error_code=ErrorCode.NONE,
            client_instance_id=client_id,
            subscription_id=_NO_SUBSCRIPTION,
            accepted_compression_types=(_ZSTD, _LZ4, _GZIP, _SNAPPY),
            push_interval_ms=PUSH_INTERVAL_MS,
            telemetry_max_bytes=TELEMETRY_MAX_BYTES,
            delta_temporality=True,
            requested_metrics=(),
        )


async def push(request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Raise Refusal: nobody was asked for metrics. The client asks what is wanted."""
    if request.client_instance_id in _RESERVED_IDS:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{request.client_instance_id} is not the id of a client")
    raise Refusal(ErrorCode.UNKNOWN_SUBSCRIPTION_ID, f"there is no subscription {request.subscription_id}")
