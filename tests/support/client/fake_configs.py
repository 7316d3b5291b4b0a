"""Configs of topics, brokers and groups, as a broker of the fake cluster describes and alters them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.model import configs
from kraft.model.errors import ErrorCode
from kraft.wire.schema.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kraft.wire.schema.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
)

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeCluster

_NEVER_UNKNOWN = (
    configs.ConfigResourceType.BROKER,
    configs.ConfigResourceType.GROUP,
    configs.ConfigResourceType.CLIENT_METRICS,
)


def described(cluster: FakeCluster, broker_id: int, asked: DescribeConfigsResource) -> DescribeConfigsResult:
    if asked.resource_type == configs.ConfigResourceType.BROKER:
        assert asked.resource_name in ("", str(broker_id))
        file = configs.ConfigSource.STATIC_BROKER_CONFIG
        entries = [_config("node.id", asked.resource_name, file)] if asked.resource_name else []
        entries += [
            _config(key, value, configs.ConfigSource.DYNAMIC_BROKER_CONFIG)
            for key, value in sorted(cluster.broker_configs.get(asked.resource_name, {}).items())
        ]
    elif asked.resource_type == configs.ConfigResourceType.GROUP:
        file = configs.ConfigSource.STATIC_BROKER_CONFIG
        entries = [_config("consumer.session.timeout.ms", "45000", file)]
        entries += [
            _config(key, value, configs.ConfigSource.DYNAMIC_GROUP_CONFIG)
            for key, value in sorted(cluster.group_configs.get(asked.resource_name, {}).items())
        ]
    elif asked.resource_type == configs.ConfigResourceType.CLIENT_METRICS:
        entries = [_config("match", "", configs.ConfigSource.DEFAULT_CONFIG)]
        entries += [
            _config(key, value, configs.ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)
            for key, value in sorted(cluster.client_metrics.get(asked.resource_name, {}).items())
        ]
    else:
        own = cluster.configs.get(asked.resource_name, {})
        entries = [_config("segment.bytes", "1073741824", configs.ConfigSource.DEFAULT_CONFIG)]
        file, topic = configs.ConfigSource.STATIC_BROKER_CONFIG, configs.ConfigSource.DYNAMIC_TOPIC_CONFIG
        entries += [
            _config(key, value, topic if key in own else file)
            for key, value in sorted({**cluster.topic_configs_of_files, **own}.items())
        ]
    known = asked.resource_name in cluster.topics or asked.resource_type in _NEVER_UNKNOWN
    return DescribeConfigsResult(
        error_code=ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="",
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=tuple(entries) if known else (),
    )


def altered(cluster: FakeCluster, asked: AlterConfigsResource, validate_only: bool) -> AlterConfigsResourceResponse:
    of_others: dict[int, dict[str, dict[str, str]]] = {
        configs.ConfigResourceType.BROKER: cluster.broker_configs,
        configs.ConfigResourceType.GROUP: cluster.group_configs,
        configs.ConfigResourceType.CLIENT_METRICS: cluster.client_metrics,
    }
    kept = of_others.get(asked.resource_type, cluster.configs)
    own = kept.setdefault(asked.resource_name, {})
    for config in () if validate_only else asked.configs:
        before = own.pop(config.name, None)
        if (value := _altered_value(before or "", config)) is not None:
            own[config.name] = value
    known = asked.resource_name in cluster.topics or asked.resource_type in _NEVER_UNKNOWN
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def _altered_value(before: str, config: AlterableConfig) -> str | None:
    """Return the value after the alteration; lists are taken for granted where one is appended or subtracted."""
    entries, others = [before] if before else [], (config.value or "").split(",")
    match config.config_operation:
        case configs.ConfigOperation.APPEND:
            return ",".join([*entries, *others])
        case configs.ConfigOperation.SUBTRACT:
            return ",".join(entry for entry in before.split(",") if entry not in others)
        case _:
            return config.value


def _config(key: str, value: str, source: configs.ConfigSource) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=key,
        value=value,
        read_only=False,
        config_source=source,
        is_sensitive=False,
        synonyms=(DescribeConfigsSynonym(name=key, value=value, source=source),),
        config_type=configs.ConfigType.LONG,
        documentation=None,
    )
