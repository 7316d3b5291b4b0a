"""The kind of shards that coordinate groups, with the settings of a broker's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.consumer.requests import GroupSettings
from kraft.coordinator.group_record import GroupRecord, UnknownGroupRecord
from kraft.coordinator.group_record_codec import decode, encode
from kraft.coordinator.groups.commands import GroupCommand
from kraft.coordinator.groups.replicated import Groups
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.shard import GroupShard
from kraft.coordinator.groups.volatile import GroupsVolatile
from kraft.log.format.compression import Codec
from kraft.metadata.group_configs import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT, in_effect
from kraft.server.config.node_config import NodeConfig
from kraft.server.coordinator.shard_host import HostSettings, ShardHost
from kraft.server.coordinator.shard_kind import ShardKind

GroupKind: TypeAlias = ShardKind[Groups, GroupsVolatile, GroupCommand, GroupRecord]
GroupHost: TypeAlias = ShardHost[Groups, GroupsVolatile, GroupCommand, GroupRecord]

_MINUTE_MS: Final = 60_000


def group_kind(settings: GroupShardSettings) -> GroupKind:
    return ShardKind(shard=GroupShard(settings), encode=encode, decode=_decode)


def _decode(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    record = decode(key, value)
    return None if isinstance(record, UnknownGroupRecord) else record


def group_shard_settings(
    config: NodeConfig,
    regex_error: Callable[[str], str | None] | None = None,
    group_configs: Callable[[], Mapping[str, Mapping[str, str]]] = dict,
) -> GroupShardSettings:
    """`regex_error` returns what is wrong with the regular expression of a subscription; `group_configs` the configs
    that groups have of their own.
    """
    offsets, classic, consumer = config.offsets_topic, config.classic_groups, config.consumer_groups
    of_all = GroupSettings(
        heartbeat_interval_ms=consumer.heartbeat_interval_ms,
        session_timeout_ms=consumer.session_timeout_ms,
        members_max=consumer.members_max,
        assignors=consumer.assignors,
        assignment_interval_ms=consumer.assignment_interval_ms,
        offloads_assignor=consumer.offloads_assignor,
    )

    def of_group(group_id: str) -> GroupSettings:
        own = group_configs().get(group_id)
        if own is None:
            return of_all
        return replace(
            of_all,
            heartbeat_interval_ms=in_effect(own, HEARTBEAT_INTERVAL, consumer.defaults),
            session_timeout_ms=in_effect(own, SESSION_TIMEOUT, consumer.defaults),
            assignment_interval_ms=in_effect(own, ASSIGNMENT_INTERVAL, consumer.defaults),
        )

    return GroupShardSettings(
        classic=ClassicSettings(
            session_timeout_min_ms=classic.session_timeout_min_ms,
            session_timeout_max_ms=classic.session_timeout_max_ms,
            initial_rebalance_delay_ms=classic.initial_rebalance_delay_ms,
            size_max=classic.members_max,
        ),
        consumer=of_all,
        consumer_group=of_group,
        regex_error=regex_error,
        migration_policy=consumer.migration_policy,
        offset_metadata_length_max=offsets.metadata_length_max,
        offsets_retention_ms=offsets.retention_minutes * _MINUTE_MS,
        offsets_retention_check_interval_ms=offsets.retention_check_interval_ms,
    )


def host_settings(config: NodeConfig) -> HostSettings:
    offsets = config.offsets_topic
    return HostSettings(
        load_bytes_max=offsets.load_bytes_max, commit_timeout_ms=offsets.commit_timeout_ms, codec=Codec(offsets.codec)
    )
