"""APIs by which clients push their metrics; only Kafka's protocol has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from kraft.model.clients import TEXT_CHARACTERS_MAX
from kraft.server.apis.api import Api, DecidedBy
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.client_metrics.pushing_client import PushingClient
from kraft.server.handlers.client_metrics import ClientMetricsHandler
from kraft.server.kafka_listener.introduced_client import IntroducedClient
from kraft.server.kafka_listener.requests import ConnectionContext
from kraft.wire.api_keys import ApiKey
from kraft.wire.schema.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from kraft.wire.schema.push_telemetry import PushTelemetryResponse


def _of(context: ConnectionContext) -> PushingClient:
    """Return what the connection knows of its client."""
    said = context.introduced or IntroducedClient()
    return PushingClient(
        client_id=context.client_id[:TEXT_CHARACTERS_MAX],
        software_name=said.software_name,
        software_version=said.software_version,
        host=context.host,
        port=context.peer.rpartition(":")[2],
        principal=str(context.principal)[:TEXT_CHARACTERS_MAX],
        call_when_gone=said.call_when_gone,
    )


def _subscriptions(broker: BrokerSide) -> Callable[..., Awaitable[GetTelemetrySubscriptionsResponse]]:
    handler = ClientMetricsHandler(broker.client_metrics, broker.entropy)
    return lambda request, context: handler.subscriptions(request, _of(context))


def _push(broker: BrokerSide) -> Callable[..., Awaitable[PushTelemetryResponse]]:
    handler = ClientMetricsHandler(broker.client_metrics, broker.entropy)
    return lambda request, context: handler.push(request, _of(context))


CLIENT_METRICS_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        decided_by=DecidedBy.BROKER,
        handler=_subscriptions,
        takes_context=True,
        # Any client that may connect, as in Kafka.
        needs=(),
    ),
    Api(
        key=ApiKey.PUSH_TELEMETRY,
        decided_by=DecidedBy.BROKER,
        handler=_push,
        takes_context=True,
        needs=(),
    ),
)
