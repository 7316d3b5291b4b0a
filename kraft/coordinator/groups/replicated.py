"""The replicated state of the group shard: what its records say, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.classic.records import tombstone
from kraft.coordinator.consumer import records as consumer_records
from kraft.coordinator.consumer.group import ConsumerGroup
from kraft.coordinator.consumer.memory import added_bytes
from kraft.coordinator.consumer.regexes import unresolved_regexes as unresolved_regexes_of
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kraft.coordinator.offsets.committed_offsets import NO_OFFSETS, CommittedOffsets
from kraft.coordinator.shard import Contents
from kraft.metadata.persistent_maps import PersistentMap


class Groups(Struct, frozen=True, kw_only=True):
    """All groups of one partition of `__consumer_offsets`, by their ids.

    A group is a classic one or one of the consumer protocol, and both can have committed offsets. An id that has only
    offsets is a simple group: an empty classic group without a record. If another program has recorded both kinds for
    one id, the group of the consumer protocol counts.
    """

    offsets: CommittedOffsets = NO_OFFSETS
    classic: PersistentMap[str, GroupMetadataValue] = PersistentMap()
    consumer: PersistentMap[str, ConsumerGroup] = PersistentMap()
    consumer_bytes: int = 0
    """Memory of the groups of the consumer protocol and their members."""

    with_regexes: PersistentMap[str, bool] = PersistentMap()
    """The groups with members that subscribe by a regular expression; True if one of these was not resolved yet."""


NO_GROUPS: Final = Groups()

NAMED_MAX: Final = 5


def contents(groups: Groups) -> Contents:
    """Return how many groups and members there are, and the first few groups with members, for the node's log."""
    sizes = chain(
        ((group_id, len(group.members)) for group_id, group in groups.classic.items()),
        ((group_id, len(group.members)) for group_id, group in groups.consumer.items()),
    )
    members, named = 0, list[str]()
    for group_id, size in sizes:
        members += size
        if size and len(named) < NAMED_MAX:
            named.append(group_id)
    return Contents(counts={"groups": len(groups.classic) + len(groups.consumer), "members": members}, named=named)


def replay(groups: Groups, record: GroupRecord) -> Groups:
    """Return the state after one record. A record without meaning changes nothing."""
    key, value = record.key, record.value
    if isinstance(key, OffsetCommitKey):
        assert value is None or isinstance(value, OffsetCommitValue)
        return replace(groups, offsets=groups.offsets.replay(key, value))
    if isinstance(key, GroupMetadataKey):
        assert value is None or isinstance(value, GroupMetadataValue)
        return replace(groups, classic=groups.classic.with_changes({key.group: value}))
    assert hasattr(key, "group_id"), f"{key} is not of a group"
    group_id: str = key.group_id
    before = groups.consumer.get(group_id)
    after = consumer_records.replay(before, record)
    if after is before:
        return groups
    return replace(
        groups,
        consumer=groups.consumer.with_changes({group_id: after}),
        consumer_bytes=groups.consumer_bytes + added_bytes(before, after),
        with_regexes=groups.with_regexes.with_changes(_changed_regexes(group_id, before, after)),
    )


def replay_transactional(groups: Groups, producer_id: int, record: GroupRecord) -> Groups:
    """Return the state after one record of a producer's transaction. Only commits of offsets are written in one."""
    if not isinstance(record.key, OffsetCommitKey) or not isinstance(record.value, OffsetCommitValue):
        return groups
    return replace(groups, offsets=groups.offsets.replay_transactional(producer_id, record.key, record.value))


def replay_end_transaction(groups: Groups, producer_id: int, is_commit: bool) -> Groups:
    """Return the state after the marker that ends a producer's transaction."""
    offsets = groups.offsets.replay_end_transaction(producer_id, is_commit)
    return groups if offsets is groups.offsets else replace(groups, offsets=offsets)


def _changed_regexes(
    group_id: str, before: ConsumerGroup | None, after: ConsumerGroup | None
) -> Mapping[str, bool | None]:
    """Return what changes in `Groups.with_regexes`; most records have nothing to do with it."""
    if after is None:
        return {group_id: None} if before is not None and before.regex_counts else {}
    if before is None or before.regex_counts is not after.regex_counts or before.regexes is not after.regexes:
        return {group_id: bool(unresolved_regexes_of(after)) if after.regex_counts else None}
    return {}


def has_group(groups: Groups, group_id: str) -> bool:
    """Return whether there is such a group, or offsets of one, of open transactions too."""
    return group_id in groups.consumer or group_id in groups.classic or groups.offsets.has_group(group_id)


def group_tombstones(groups: Groups, group_id: str) -> tuple[GroupRecord, ...]:
    """Return the records that delete the group, but not its offsets."""
    consumer = groups.consumer.get(group_id)
    return (
        *(() if consumer is None else consumer_records.without_group(consumer)),
        *((tombstone(group_id),) if group_id in groups.classic else ()),
    )


def unresolved_regexes(groups: Groups) -> dict[str, set[str]]:
    """Return, by group, the regular expressions that the host has to resolve first."""
    return {
        group_id: unresolved_regexes_of(groups.consumer[group_id])
        for group_id, is_unresolved in groups.with_regexes.items()
        if is_unresolved
    }


def regexes_in_use(groups: Groups) -> dict[str, set[str]]:
    """Return, by group, the regular expressions that the host has to resolve again when topics come and go."""
    return {group_id: set(groups.consumer[group_id].regex_counts) for group_id in groups.with_regexes}
