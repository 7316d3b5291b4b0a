"""APIs for configs of topics, brokers and groups."""

from __future__ import annotations

from typing import Any, Final

from kraft.metadata.config_decisions import alter_configs, incremental_alter_configs
from kraft.model.access import Operation, ResourceType
from kraft.rpc.calls import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from kraft.rpc.config_calls import LIST_CONFIG_RESOURCES
from kraft.server.access.config_guards import configs_guard
from kraft.server.access.guard import Permission
from kraft.server.apis import audited
from kraft.server.apis.api import Api, DecidedBy
from kraft.server.apis.broker_side import BrokerSide
from kraft.server.apis.handlers import decided_with_configs, forwarded, from_metadata
from kraft.server.apis.sides import Side
from kraft.server.handlers import broker_loggers, configs, describe_configs, list_config_resources
from kraft.wire.api_keys import ApiKey

# Brokers are resources of the cluster, as in Kafka.
_WITH_CONFIGS: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)


def _incremental_alter_configs(broker: BrokerSide) -> broker_loggers.AlterConfigs:
    applied = configs.is_applied(incremental_alter_configs, broker.node_configs)
    return broker_loggers.altering(broker.config.node_id, forwarded(INCREMENTAL_ALTER_CONFIGS, applied)(broker))


def _describe_configs(side: Side) -> describe_configs.DescribeConfigsHandler:
    return describe_configs.DescribeConfigsHandler(side.config, side.image)


CONFIG_APIS: Final[tuple[Api[Any, Any], ...]] = (
    Api(
        key=ApiKey.DESCRIBE_CONFIGS,
        call=DESCRIBE_CONFIGS,
        decided_by=DecidedBy.BROKER,
        handler=lambda broker: _describe_configs(broker).handle,
        at_controller=lambda controller: _describe_configs(controller).handle,
        needs=tuple(Permission(Operation.DESCRIBE_CONFIGS, each) for each in _WITH_CONFIGS),
        guard=lambda _: configs_guard(Operation.DESCRIBE_CONFIGS, describe_configs.refused, "results"),
        refused=describe_configs.refused,
    ),
    Api(
        key=ApiKey.ALTER_CONFIGS,
        call=ALTER_CONFIGS,
        decided_by=DecidedBy.CONTROLLER,
        handler=lambda broker: forwarded(ALTER_CONFIGS, configs.is_applied(alter_configs, broker.node_configs))(broker),
        at_controller=decided_with_configs(alter_configs),
        audited=audited.CONFIGS,
        needs=tuple(Permission(Operation.ALTER_CONFIGS, each) for each in _WITH_CONFIGS),
        guard=lambda _: configs_guard(Operation.ALTER_CONFIGS, configs.all_refused, "responses"),
        refused=configs.all_refused,
    ),
    Api(
        key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        call=INCREMENTAL_ALTER_CONFIGS,
        decided_by=DecidedBy.CONTROLLER,
        handler=_incremental_alter_configs,
        at_controller=decided_with_configs(incremental_alter_configs),
        audited=audited.CONFIGS,
        needs=tuple(Permission(Operation.ALTER_CONFIGS, each) for each in _WITH_CONFIGS),
        guard=lambda _: configs_guard(Operation.ALTER_CONFIGS, configs.one_by_one_refused, "responses"),
        refused=configs.one_by_one_refused,
    ),
    Api(
        key=ApiKey.LIST_CONFIG_RESOURCES,
        call=LIST_CONFIG_RESOURCES,
        decided_by=DecidedBy.BROKER,
        handler=from_metadata(list_config_resources.list_config_resources),
        at_controller=from_metadata(list_config_resources.list_config_resources),
        needs=(Permission(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),),
        from_version=list_config_resources.from_version,
    ),
)
