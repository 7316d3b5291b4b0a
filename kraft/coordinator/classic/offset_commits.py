"""Who may commit offsets for a classic group, and who may delete them."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kraft.coordinator.classic.timers import SessionTimer
from kraft.coordinator.classic.validation import (
    illegal_generation,
    rebalance_in_progress,
    unknown_member,
    validate_generation,
)
from kraft.coordinator.group_refusals import group_not_empty
from kraft.coordinator.offsets.committer import Committer
from kraft.coordinator.offsets.group_facts import CONSUMER_PROTOCOL_TYPE
from kraft.coordinator.shard import TimerKey
from kraft.model.errors import Refusal


def validate_offset_commit(group: ClassicGroup | None, group_id: str, committer: Committer) -> Refusal | None:
    """Return why this sender may not commit offsets for the group, or None if it may."""
    if group is None:
        return illegal_generation(group_id, committer.generation) if committer.generation >= 0 else None
    if committer.generation < 0 and group.state is ClassicGroupState.EMPTY:
        return None
    if committer.generation >= 0 or committer.member_id or committer.group_instance_id is not None:
        refusal = validate_generation(group, committer.member_id, committer.group_instance_id, committer.generation)
        if refusal is not None:
            return refusal
    elif not committer.is_transactional:
        return unknown_member(group_id, committer.member_id)
    if group.state is ClassicGroupState.COMPLETING_REBALANCE and not committer.is_transactional:
        # The generation is new: what the member has of the earlier one, it has no longer.
        return rebalance_in_progress(group_id)
    return None


def session_after_commit(group: ClassicGroup | None, committer: Committer) -> Mapping[TimerKey, int | None]:
    """Return the timer that a valid commit sets: like a heartbeat, it starts the member's session again."""
    if group is None or group.state not in (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE):
        return {}
    member = group.members.get(committer.member_id)
    if member is None or committer.is_transactional:
        return {}
    return {SessionTimer(group.group_id, member.member_id): member.session_timeout_ms}


def validate_offset_delete(group: ClassicGroup) -> Refusal | None:
    """Return why none of the group's offsets may be deleted, or None; of single topics, `group_facts` says it."""
    if group.state is ClassicGroupState.EMPTY or group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        return None
    return group_not_empty(group.group_id)
