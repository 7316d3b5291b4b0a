"""APIs for the cluster as a whole: its client quotas and feature levels."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kraft.metadata.quota_decisions import describe_client_quotas
from kraft.rpc.calls import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS, DESCRIBE_FEATURES, UPDATE_FEATURES
from kraft.server.apis.api import Api, DecidedBy, Operation, Permission, Resource
from kraft.server.apis.handlers import forwarded, from_indexed_metadata, from_metadata
from kraft.server.handlers import client_quotas, features
from kraft.server.handlers.describe_features import describe_features
from kraft.wire.api_keys import ApiKey

CLUSTER_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.DESCRIBE_CLIENT_QUOTAS,
        call=DESCRIBE_CLIENT_QUOTAS,
        decided_by=DecidedBy.BROKER,
        handler=from_metadata(describe_client_quotas),
        at_controller=from_metadata(describe_client_quotas),
        needs=(Permission(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER),),
    ),
    Api(
        key=ApiKey.ALTER_CLIENT_QUOTAS,
        call=ALTER_CLIENT_QUOTAS,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(ALTER_CLIENT_QUOTAS, client_quotas.is_applied),
        at_controller=lambda controller: client_quotas.Alterations(controller.decisions).alter,
        needs=(Permission(Operation.ALTER_CONFIGS, Resource.CLUSTER),),
        refused=client_quotas.refused,
    ),
    Api(
        key=ApiKey.UPDATE_FEATURES,
        call=UPDATE_FEATURES,
        decided_by=DecidedBy.CONTROLLER,
        handler=forwarded(UPDATE_FEATURES, features.is_applied),
        at_controller=lambda controller: partial(features.update, controller.decisions, controller.features_of_others),
        needs=(Permission(Operation.ALTER, Resource.CLUSTER),),
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
)
