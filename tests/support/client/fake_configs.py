"""Configs of topics, brokers and groups, as a broker of the fake cluster describes and alters them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft.model import configs
from kraft.model.errors import ErrorCode

if TYPE_CHECKING:
    from tests.support.client.fake_cluster import FakeCluster

_NEVER_UNKNOWN = (configs.ConfigResourceType.BROKER, configs.ConfigResourceType.GROUP)


def described(cluster: FakeCluster, broker_id: int, asked: configs.ConfigResource) -> configs.ResourceDescription:
    if asked.resource_type is configs.ConfigResourceType.BROKER:
        assert asked.resource_name in ("", str(broker_id))
        file = configs.ConfigSource.STATIC_BROKER_CONFIG
        entries = [_config("node.id", asked.resource_name, file)] if asked.resource_name else []
        entries += [
            _config(key, value, configs.ConfigSource.DYNAMIC_BROKER_CONFIG)
            for key, value in sorted(cluster.broker_configs.get(asked.resource_name, {}).items())
        ]
    elif asked.resource_type is configs.ConfigResourceType.GROUP:
        file = configs.ConfigSource.STATIC_BROKER_CONFIG
        entries = [_config("consumer.session.timeout.ms", "45000", file)]
        entries += [
            _config(key, value, configs.ConfigSource.DYNAMIC_GROUP_CONFIG)
            for key, value in sorted(cluster.group_configs.get(asked.resource_name, {}).items())
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
    return configs.ResourceDescription(
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        error_code=ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        entries=entries if known else [],
    )


def altered(
    cluster: FakeCluster, asked: configs.ResourceAlteration, validate_only: bool
) -> configs.ResourceAlterationResult:
    kept = {
        configs.ConfigResourceType.BROKER: cluster.broker_configs,
        configs.ConfigResourceType.GROUP: cluster.group_configs,
    }.get(asked.resource_type, cluster.configs)
    own = kept.setdefault(asked.resource_name, {})
    for alteration in [] if validate_only else asked.alterations:
        own.pop(alteration.key, None)
        if alteration.value is not None:
            own[alteration.key] = alteration.value
    known = asked.resource_name in cluster.topics or asked.resource_type in _NEVER_UNKNOWN
    return configs.ResourceAlterationResult(
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        error_code=ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


def _config(key: str, value: str, source: configs.ConfigSource) -> configs.ConfigEntry:
    return configs.ConfigEntry(
        key=key,
        value=value,
        source=source,
        is_default=source is configs.ConfigSource.DEFAULT_CONFIG,
        read_only=False,
        type=configs.ConfigType.LONG,
        synonyms=[configs.ConfigSynonym(key=key, value=value, source=source)],
    )
