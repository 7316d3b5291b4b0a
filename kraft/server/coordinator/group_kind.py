"""The kind of shards that coordinate groups, with the settings of a broker's configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.group_record import GroupRecord, UnknownGroupRecord
from kraft.coordinator.group_record_codec import decode, encode
from kraft.coordinator.groups.commands import GroupCommand
from kraft.coordinator.groups.replicated import Groups, contents
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.shard import GroupShard
from kraft.coordinator.groups.volatile import GroupsVolatile
from kraft.coordinator.shard import ShardKind
from kraft.log.format.compression import Codec
from kraft.metadata.group_configs import in_effect
from kraft.metadata.image import CurrentImage
from kraft.server.config.node_config import NodeConfig
from kraft.server.coordinator.shard_host import HostSettings, ShardHost

GroupKind: TypeAlias = ShardKind[Groups, GroupsVolatile, GroupCommand, GroupRecord]
GroupHost: TypeAlias = ShardHost[Groups, GroupsVolatile, GroupCommand, GroupRecord]


def group_kind(settings: GroupShardSettings) -> GroupKind:
    return ShardKind(shard=GroupShard(settings), encode=encode, decode=_decode, contents=contents)


def _decode(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    record = decode(key, value)
    return None if isinstance(record, UnknownGroupRecord) else record


def group_shard_settings(config: NodeConfig, image: CurrentImage) -> GroupShardSettings:
    """`image` has the configs that groups have of their own."""
    of_all = config.groups.consumer

    def of_group(group_id: str) -> GroupSettings:
        own = image().group_configs.get(group_id)
        return of_all if own is None else in_effect(own, of_all, config.group_bounds)

    return replace(config.groups, consumer_group=of_group)


def host_settings(config: NodeConfig) -> HostSettings:
    offsets = config.offsets_topic
    return HostSettings(
        load_bytes_max=offsets.load_bytes_max, commit_timeout_ms=offsets.commit_timeout_ms, codec=Codec(offsets.codec)
    )
