"""APIs for the cluster as a whole: its client quotas, clients' metrics, feature levels, brokers and controllers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from kraft.metadata.quota_decisions import alter_client_quotas, describe_client_quotas
from kraft.model.access import Operation, ResourceType
from kraft.model.features import DescribeFeaturesResponse
from kraft.rpc.calls import (
    ALTER_CLIENT_QUOTAS,
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_FEATURES,
    DESCRIBE_QUORUM,
    UPDATE_FEATURES,
)
from kraft.rpc.client_calls import API_VERSIONS
from kraft.server.access import topic_guards
from kraft.server.access.guard import Permission
from kraft.server.apis import audited
from kraft.server.apis.api import Api, DecidedBy
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.apis.handlers import decided, forwarded, from_indexed_metadata, from_metadata
from kraft.server.handlers import api_versions, client_quotas, describe_cluster, features
from kraft.server.handlers.describe_features import describe_features
from kraft.server.handlers.describe_quorum import DescribeQuorumHandler
from kraft.server.kafka_listener.requests import ConnectionContext
from kraft.wire.api_keys import ApiKey
from kraft.wire.schema.api_versions import ApiVersionsRequest, ApiVersionsResponse


def _versions_handler(broker: BrokerSide) -> api_versions.ApiVersionsHandler:
    def features() -> DescribeFeaturesResponse:
        return describe_features(broker.image(), broker.index())

    return api_versions.ApiVersionsHandler(broker.served_keys, features)


def _versions_for_tools(broker: BrokerSide) -> Callable[..., Awaitable[Any]]:
    handler = _versions_handler(broker)

    async def handle(_: ApiVersionsRequest) -> ApiVersionsResponse:
        return handler.answer()

    return handle


def _api_versions(broker: BrokerSide) -> Callable[..., Awaitable[Any]]:
    handler = _versions_handler(broker)

    async def handle(request: ApiVersionsRequest, context: ConnectionContext) -> ApiVersionsResponse:
        response = await handler.handle(request, context)
        # Clients name their software from version 3 on.
        if context.introduced is not None and request.client_software_name:
            context.introduced.note_software(request.client_software_name, request.client_software_version)
        return response

    return handle


CLUSTER_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
        call=DESCRIBE_CLIENT_QUOTAS,
        decided_by=DecidedBy.BROKER,
        handler=from_metadata(describe_client_quotas),
        at_controller=from_metadata(describe_client_quotas),
        needs=(Permission(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),),
    ),
    Api(
        key=ApiKey.ALTER_CLIENT_QUOTAS,
        call=ALTER_CLIENT_QUOTAS,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(ALTER_CLIENT_QUOTAS, client_quotas.is_applied),
        at_controller=decided(alter_client_quotas),
        audited=audited.QUOTAS,
        needs=(Permission(Operation.ALTER_CONFIGS, ResourceType.CLUSTER),),
        refused=client_quotas.refused,
    ),
    Api(
        key=ApiKey.UPDATE_FEATURES,
        call=UPDATE_FEATURES,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(UPDATE_FEATURES, features.is_applied),
        at_controller=lambda controller: partial(features.update, controller.decisions, controller.features_of_others),
        audited=audited.FEATURES,
        needs=(Permission(Operation.ALTER, ResourceType.CLUSTER),),
        to_version=features.to_version,
    ),
    Api(
        call=DESCRIBE_FEATURES,
        decided_by=DecidedBy.BROKER,
        handler=from_indexed_metadata(describe_features),
        at_controller=from_indexed_metadata(describe_features),
        # Kafka's ApiVersions tells anybody.
        needs=(),
    ),
    Api(
        key=ApiKey.API_VERSIONS,
        decided_by=DecidedBy.BROKER,
        handler=_api_versions,
        takes_context=True,
        needs=(),
        to_version=api_versions.to_version,
    ),
    Api(
        # What Kafka's clients of this broker get, for tools.
        call=API_VERSIONS,
        decided_by=DecidedBy.BROKER,
        handler=_versions_for_tools,
        needs=(),
    ),
    Api(
        key=ApiKey.DESCRIBE_CLUSTER,
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: (
            describe_cluster.DescribeClusterHandler(broker.image, broker.listener, broker.controller_for_clients).handle
        ),
        # Metadata tells anybody.
        needs=(),
        guard=lambda _: topic_guards.describe_cluster,
        refused=describe_cluster.refused,
    ),
    Api(
        key=ApiKey.DESCRIBE_QUORUM,
        # The active controller knows it, and so it is asked, with a call of our own that says more.
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: (
            DescribeQuorumHandler(broker.operators.quorum.describe, broker.config.quorum.voters).handle
        ),
        needs=(Permission(Operation.DESCRIBE, ResourceType.CLUSTER),),
    ),
    Api(
        call=DESCRIBE_QUORUM,
        decided_by=DecidedBy.CONTROLLER,
        handler=lambda broker: broker.operators.quorum.describe,
        at_controller=lambda controller: controller.describe_quorum,
        needs=(Permission(Operation.DESCRIBE, ResourceType.CLUSTER),),
    ),
)
