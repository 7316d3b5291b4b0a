"""Passes over all groups: expired offsets, and offsets of deleted topics.

A pass is made in slices, each of them a decision with one batch of records, so that other requests do not wait for it.
A timer that ends at once continues it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kraft.coordinator.classic.group import ClassicGroup
from kraft.coordinator.group_events import OffsetsExpired
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.groups.commands import DeleteTopicOffsets
from kraft.coordinator.groups.replicated import group_tombstones
from kraft.coordinator.groups.state import GroupsState
from kraft.coordinator.groups.timers import OffsetExpiryTimer, TopicDeletionTimer
from kraft.coordinator.groups.volatile import GroupsDecision, GroupsPass, TopicDeletion
from kraft.coordinator.offsets.deletion import on_topics_deleted
from kraft.coordinator.offsets.expiry import expired
from kraft.coordinator.offsets.tombstones import TOMBSTONES_BYTES_MAX, Tombstones, tombstone_bytes
from kraft.coordinator.shard import Reply, ShardDecision, Ticket

_OFFSETS_PER_SLICE: Final = 2_000
"""How many offsets a slice looks at, up to the end of the last group."""

_OFFSETS_PER_GROUP: Final = 10
"""A group costs as much as this many offsets, also without any."""


class _Visit(Struct, frozen=True):
    """Effect of a pass on one group."""

    tombstones: Tombstones
    removed: tuple[GroupRecord, ...] | None = None
    """Tombstones of the group itself, if it is removed."""

    @property
    def size(self) -> int:
        """Bytes that the records take in a batch, at most."""
        return self.tombstones.size + sum(tombstone_bytes(record) for record in self.removed or ())


class _Slice(Struct, frozen=True):
    records: tuple[GroupRecord, ...]
    visits: dict[str, _Visit]
    """By group; only those that changed something."""

    removed: dict[str, ClassicGroup | None]
    remaining: GroupsPass | None
    """None at the end of the pass."""


def _slice(state: GroupsState, rest: GroupsPass, visit: Callable[[str], _Visit | None]) -> _Slice:
    records: list[GroupRecord] = []
    visits: dict[str, _Visit] = {}
    removed: dict[str, ClassicGroup | None] = {}
    size = looked_at = 0
    position, end = rest.position, len(rest.group_ids)
    while position < end and looked_at < _OFFSETS_PER_SLICE:
        group_id = rest.group_ids[position]
        looked_at += _OFFSETS_PER_GROUP + state.groups.offsets.count(group_id)
        visited = visit(group_id)
        if visited is not None:
            size += visited.size
            if records and size > TOMBSTONES_BYTES_MAX:
                break
            records += visited.tombstones.records
            if visited.size:
                visits[group_id] = visited
            if visited.removed is not None:
                records += visited.removed
                removed[group_id] = None
            if visited.tombstones.more:
                break
        position += 1
    remaining = replace(rest, position=position) if position < end else None
    return _Slice(tuple(records), visits, removed, remaining)


# --- expiry ----------------------------------------------------------------------------------------------------------


def continue_expiry(state: GroupsState) -> GroupsDecision:
    """Begin a pass, or continue it. The next one begins an interval after the end of this one."""
    rest = state.volatile.expiry or GroupsPass(group_ids=_all_groups(state))
    done = _slice(state, rest, lambda group_id: _expired(state, group_id))
    interval_ms = state.settings.offsets_retention_check_interval_ms
    return ShardDecision(
        volatile=replace(state.volatile.with_classic(done.removed), expiry=done.remaining),
        records=done.records,
        timers={OffsetExpiryTimer(): interval_ms if done.remaining is None else 0},
        events=tuple(
            OffsetsExpired(
                group_id=group_id, offsets=len(visit.tombstones.records), is_removed=visit.removed is not None
            )
            for group_id, visit in done.visits.items()
        ),
    )


def _all_groups(state: GroupsState) -> tuple[str, ...]:
    groups = state.groups
    return tuple(dict.fromkeys((*groups.offsets.all_groups(), *groups.consumer, *state.volatile.classic)))


def _expired(state: GroupsState, group_id: str) -> _Visit | None:
    """Return what expires in a group. Without offsets and members, the group itself is removed."""
    facts = state.facts(group_id)
    if facts is None:
        return None
    classic = state.volatile.classic.get(group_id)
    (found,) = expired(
        state.groups.offsets,
        [(group_id, facts)],
        now_ms=state.context.now_ms,
        retention_ms=state.settings.offsets_retention_ms,
    )
    if not found.group_removable or (classic is not None and classic.pending_joins):
        return _Visit(found.tombstones)
    return _Visit(found.tombstones, group_tombstones(state.groups, group_id))


# --- deleted topics --------------------------------------------------------------------------------------------------


def delete_topic_offsets(state: GroupsState, ticket: Ticket, command: DeleteTopicOffsets) -> GroupsDecision:
    group_ids = tuple(state.groups.offsets.all_groups())
    deletion = TopicDeletion(ticket=ticket, topics=command.topics, remaining=GroupsPass(group_ids=group_ids))
    deletions = (*state.volatile.topic_deletions, deletion)
    return continue_topic_deletion(replace(state, volatile=replace(state.volatile, topic_deletions=deletions)))


def continue_topic_deletion(state: GroupsState) -> GroupsDecision:
    if not state.volatile.topic_deletions:
        return state.nothing()
    current, *others = state.volatile.topic_deletions
    done = _slice(state, current.remaining, lambda group_id: _of_deleted_topics(state, group_id, current))
    if done.remaining is not None:
        others.insert(0, replace(current, remaining=done.remaining))
    return ShardDecision(
        volatile=replace(state.volatile, topic_deletions=tuple(others)),
        records=done.records,
        replies=(Reply(current.ticket, None),) if done.remaining is None else (),
        timers={TopicDeletionTimer(): 0 if others else None},
    )


def _of_deleted_topics(state: GroupsState, group_id: str, deletion: TopicDeletion) -> _Visit:
    (tombstones,) = on_topics_deleted(state.groups.offsets, [group_id], deletion.topics)
    return _Visit(tombstones)
