"""Deletion of a group with its offsets.

All offsets are deleted in one batch with the group, if they fit. If not, batch after batch of them is deleted, and the
group with the last one; the request waits until then. Each batch is decided on the group as it is then: if a member has
joined in between, the request is refused, and what was deleted is not restored. After a failure the client sends it
again.
"""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.classic.deletion import delete_group as delete_classic_group
from kraft.coordinator.classic.group import ClassicGroup
from kraft.coordinator.classic.messages import GroupDeleted
from kraft.coordinator.consumer.departures import decide_deletion
from kraft.coordinator.group_events import DeletedByClient
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.groups.commands import DeleteGroup
from kraft.coordinator.groups.replicated import group_tombstones
from kraft.coordinator.groups.state import GroupsState
from kraft.coordinator.groups.timers import GroupDeletionTimer
from kraft.coordinator.groups.volatile import GroupsDecision
from kraft.coordinator.offsets.deletion import delete_group as delete_offsets
from kraft.coordinator.shard import Reply, ShardDecision, Ticket
from kraft.model.errors import Refusal


def delete_group(state: GroupsState, ticket: Ticket, command: DeleteGroup) -> GroupsDecision:
    return _delete(state, command.group_id, (*state.volatile.deletions.get(command.group_id, ()), ticket))


def continue_deletion(state: GroupsState, group_id: str) -> GroupsDecision:
    tickets = state.volatile.deletions.get(group_id)
    return state.nothing() if tickets is None else _delete(state, group_id, tickets)


def _delete(state: GroupsState, group_id: str, tickets: tuple[Ticket, ...]) -> GroupsDecision:
    own = _without_offsets(state, group_id, tickets[-1])
    (reply,) = own.replies
    if isinstance(reply.response, Refusal):
        return _ended(state, group_id, tickets, reply.response)
    offsets = delete_offsets(state.groups.offsets, group_id)
    if offsets.more:
        waiting = state.volatile.deletions.with_changes({group_id: tickets})
        return ShardDecision(
            volatile=replace(state.volatile, deletions=waiting),
            records=offsets.records,
            timers={GroupDeletionTimer(group_id): 0},
        )
    ended = _ended(state, group_id, tickets, GroupDeleted())
    return replace(
        ended,
        volatile=ended.volatile.with_classic({group_id: None}),
        records=(*offsets.records, *group_tombstones(state.groups, group_id)),
        timers={GroupDeletionTimer(group_id): None, **own.timers},
        events=(DeletedByClient(group_id=group_id),),
    )


def _without_offsets(
    state: GroupsState, group_id: str, ticket: Ticket
) -> ShardDecision[ClassicGroup | None, GroupRecord] | ShardDecision[None, GroupRecord]:
    """Decide the deletion of the group as if it had no offsets."""
    consumer = state.groups.consumer.get(group_id)
    if consumer is not None:
        return decide_deletion(consumer, ticket)
    return delete_classic_group(state.classic(group_id), ticket, group_id)


def _ended(
    state: GroupsState, group_id: str, tickets: tuple[Ticket, ...], response: object | Refusal
) -> GroupsDecision:
    waiting = state.volatile.deletions.with_changes({group_id: None})
    return ShardDecision(
        volatile=replace(state.volatile, deletions=waiting),
        replies=tuple(Reply(ticket, response) for ticket in tickets),
    )
