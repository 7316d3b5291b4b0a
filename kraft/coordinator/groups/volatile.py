"""The volatile state of the group shard: it ends with the leadership of the partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.classic.group import ClassicGroup
from kraft.coordinator.classic.memory import added_bytes
from kraft.coordinator.consumer.requests import RejoinTimeout
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.shard import ShardDecision, Ticket
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.ids import TopicId


class GroupsPass(Struct, frozen=True, kw_only=True):
    """A pass over groups, some at a time: those before `position` were visited."""

    group_ids: tuple[str, ...]
    position: int = 0


class TopicDeletion(Struct, frozen=True, kw_only=True):
    """Deletion of the offsets of deleted topics, under way."""

    ticket: Ticket
    topics: Mapping[str, TopicId]
    remaining: GroupsPass


class GroupsVolatile(Struct, frozen=True, kw_only=True):
    classic: PersistentMap[str, ClassicGroup] = PersistentMap()
    """Every classic group that is recorded, and those that members are about to join for the first time."""

    classic_bytes: int = 0
    """Memory of the classic groups and their members."""

    rejoining: PersistentMap[RejoinTimeout, bool] = PersistentMap()
    """Classic members of groups of the consumer protocol that have been asked to join again: these timers run."""

    assigning: PersistentMap[str, str] = PersistentMap()
    """By group, the run that computes its next target assignment."""

    deletions: PersistentMap[str, tuple[Ticket, ...]] = PersistentMap()
    """Requests to delete a group, while its offsets are deleted in several batches."""

    topic_deletions: tuple[TopicDeletion, ...] = ()
    """The first one is worked on."""

    expiry: GroupsPass | None = None
    """The pass that looks for expired offsets; None between two of them."""

    def with_classic(self, changes: Mapping[str, ClassicGroup | None]) -> GroupsVolatile:
        """Return the state with these classic groups set; None removes one."""
        changed = {group_id: group for group_id, group in changes.items() if self.classic.get(group_id) is not group}
        if not changed:
            return self
        added = sum(added_bytes(self.classic.get(group_id), group) for group_id, group in changed.items())
        return replace(self, classic=self.classic.with_changes(changed), classic_bytes=self.classic_bytes + added)

    def with_rejoining(self, changes: Mapping[RejoinTimeout, bool | None]) -> GroupsVolatile:
        """Return the state with these timers running; None stops one."""
        return replace(self, rejoining=self.rejoining.with_changes(changes)) if changes else self

    def with_run(self, group_id: str, run_id: str | None) -> GroupsVolatile:
        """Return the state with this run of the group; None ends it."""
        if self.assigning.get(group_id) == run_id:
            return self
        return replace(self, assigning=self.assigning.with_changes({group_id: run_id}))


GroupsDecision: TypeAlias = ShardDecision[GroupsVolatile, GroupRecord]
