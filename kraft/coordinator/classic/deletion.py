"""Deletion of a classic group. Its offsets are deleted with it, elsewhere."""

from __future__ import annotations

from kraft.coordinator.classic.draft import ClassicGroupDecision, refused
from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kraft.coordinator.classic.messages import GroupDeleted
from kraft.coordinator.classic.records import tombstone
from kraft.coordinator.classic.timers import SessionTimer
from kraft.coordinator.group_refusals import group_not_empty, no_group
from kraft.coordinator.shard import Reply, ShardDecision, Ticket


def delete_group(group: ClassicGroup | None, ticket: Ticket, group_id: str) -> ClassicGroupDecision:
    """Decide the deletion of a group, which has to be empty. Ids that were given out to join with become unknown."""
    if group is None:
        return refused(group, ticket, no_group(group_id))
    if group.state is not ClassicGroupState.EMPTY:
        return refused(group, ticket, group_not_empty(group_id))
    return ShardDecision(
        volatile=None,
        records=(tombstone(group_id),) if group.is_recorded else (),
        replies=(Reply(ticket, GroupDeleted()),),
        timers={SessionTimer(group_id, member_id): None for member_id in group.pending_joins},
    )
