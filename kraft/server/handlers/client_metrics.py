"""GetTelemetrySubscriptions and PushTelemetry: which of its metrics a client is asked for, and what it pushes.

Without these APIs, clients look for a broker that has them, and log that there is none. So all brokers have them, also
those that want nothing. Source: KIP-714.
"""

from __future__ import annotations

from typing import Final

from kraft.model.errors import ErrorCode, Refusal
from kraft.runtime.entropy import Entropy, random_uuid
from kraft.server.client_metrics.instances import RESERVED_IDS
from kraft.server.client_metrics.pushing_client import PushingClient
from kraft.server.client_metrics.receiving import ClientMetrics
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from kraft.wire.schema.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

_ZSTD, _LZ4, _GZIP, _SNAPPY = 4, 3, 1, 2
ACCEPTED_COMPRESSION_TYPES: Final = (_ZSTD, _LZ4, _GZIP, _SNAPPY)
"""In the order of preference, as in Kafka."""


class ClientMetricsHandler:
    def __init__(self, metrics: ClientMetrics, entropy: Entropy) -> None:
        self._metrics = metrics
        self._entropy = entropy

    async def subscriptions(
        self, request: GetTelemetrySubscriptionsRequest, client: PushingClient
    ) -> GetTelemetrySubscriptionsResponse:
        """Answer what is wanted, and give a client its id if it has none yet. Raises Refusal."""
        instance_id = request.client_instance_id
        if instance_id == ZERO_UUID:
            instance_id = random_uuid(self._entropy)
        instance = await self._metrics.ask(instance_id, client)
        return GetTelemetrySubscriptionsResponse(
            error_code=ErrorCode.NONE,
            client_instance_id=instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=ACCEPTED_COMPRESSION_TYPES,
            push_interval_ms=instance.wanted.interval_ms,
            telemetry_max_bytes=self._metrics.bytes_max,
            delta_temporality=True,
            requested_metrics=instance.wanted.metrics,
        )

    async def push(self, request: PushTelemetryRequest, client: PushingClient) -> PushTelemetryResponse:
        """Take what was asked for. Raises Refusal."""
        if request.client_instance_id in RESERVED_IDS:
            raise Refusal(ErrorCode.INVALID_REQUEST, f"{request.client_instance_id} is not the id of a client")
        await self._metrics.push(request, client)
        return PushTelemetryResponse(error_code=ErrorCode.NONE)
