"""SyncGroup to a classic group."""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.classic.assigned_partitions import assigned_partitions
from kraft.coordinator.classic.draft import ClassicDraft, ClassicGroupDecision, refused
from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kraft.coordinator.classic.rebalance import report_completed
from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.classic.timers import SyncTimer
from kraft.coordinator.classic.validation import (
    no_member,
    rebalance_in_progress,
    validate_generation,
)
from kraft.coordinator.shard import DecisionContext, Ticket
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse


def sync_group(
    group: ClassicGroup | None,
    ticket: Ticket,
    request: SyncGroupRequest,
    settings: ClassicSettings,
    context: DecisionContext,
) -> ClassicGroupDecision:
    """Decide a SyncGroup. Followers wait for the leader's, which makes the group stable."""
    if group is None:
        return refused(group, ticket, no_member(request.group_id, request.member_id))
    invalid = _refusal(group, request)
    if invalid is not None:
        return refused(group, ticket, invalid)
    draft = ClassicDraft(group, settings, context)
    draft.group = replace(group, pending_syncs=group.pending_syncs.with_changes({request.member_id: None}))
    if not draft.group.pending_syncs:
        draft.set_timer(SyncTimer(group.group_id), None)
    if group.state is ClassicGroupState.STABLE:
        draft.reply(ticket, _synced(group, request.member_id))
        return draft.decision()
    draft.park_sync(request.member_id, ticket)
    if group.leader == request.member_id:
        _stabilize(draft, request)
    return draft.decision()


def _stabilize(draft: ClassicDraft, request: SyncGroupRequest) -> None:
    """Take up the leader's assignment. Members that it leaves out are assigned nothing."""
    given = assignments(request)
    assigned = {
        member.member_id: replace(member, assignment=given.get(member.member_id, b""))
        for member in draft.group.members.values()
    }
    draft.become(ClassicGroupState.STABLE)
    draft.group = replace(draft.group, members=PersistentMap(assigned))
    draft.write_group()
    report_completed(draft, assigned_partitions(draft.group))
    for member_id, ticket in sorted(draft.take_syncs().items()):
        draft.reply(ticket, _synced(draft.group, member_id))
        draft.start_session(draft.group.members[member_id])


def assignments(request: SyncGroupRequest) -> dict[str, bytes]:
    """Return what the leader assigns, by member id."""
    return {each.member_id: each.assignment for each in request.assignments}


def _synced(group: ClassicGroup, member_id: str) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=group.members[member_id].assignment,
    )


def _refusal(group: ClassicGroup, request: SyncGroupRequest) -> Refusal | None:
    refusal = validate_generation(group, request.member_id, request.group_instance_id, request.generation_id)
    if refusal is not None:
        return refusal
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol):
        message = f"group {group.group_id!r} uses {group.protocol_type}: {group.protocol}"
        return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    return rebalance_in_progress(group.group_id) if group.state is ClassicGroupState.PREPARING_REBALANCE else None


def _differs(provided: str | None, current: str | None) -> bool:
    return provided is not None and current is not None and provided != current
