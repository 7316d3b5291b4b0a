"""A rebalance of a classic group, from its beginning to the generation whose assignment the leader is to send."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kraft.coordinator.classic.draft import ClassicDraft
from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupState, InitialDelay, select_protocol
from kraft.coordinator.classic.timers import JoinTimer, SyncTimer
from kraft.coordinator.classic.validation import rebalance_in_progress
from kraft.coordinator.group_events import RebalanceCompleted, RebalanceStarted
from kraft.metadata.persistent_maps import PersistentMap
from kraft.model.errors import ErrorCode
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

_REASON_LENGTH_MAX: Final = 500


def prepare_or_complete(draft: ClassicDraft, reason: str) -> None:
    """Begin a rebalance. If one is prepared already, go on once all have joined and an initial delay has ended."""
    if draft.group.state is not ClassicGroupState.PREPARING_REBALANCE:
        prepare(draft, reason)
    elif draft.group.initial_delay is None and draft.group.all_joined:
        complete(draft)


def prepare(draft: ClassicDraft, reason: str) -> None:
    """Begin a rebalance: members who wait for an assignment, and those who send heartbeats, are to join again."""
    _refuse_syncs(draft)
    draft.set_timer(SyncTimer(draft.group.group_id), None)
    was_empty = draft.group.state is ClassicGroupState.EMPTY
    is_restart = draft.group.state is ClassicGroupState.COMPLETING_REBALANCE
    draft.become(ClassicGroupState.PREPARING_REBALANCE)
    draft.group = replace(draft.group, rebalance_reason=reason[:_REASON_LENGTH_MAX])
    draft.report(
        RebalanceStarted(
            group_id=draft.group.group_id,
            epoch=draft.group.generation,
            is_classic=True,
            reason=draft.group.rebalance_reason,
            members=len(draft.group.members),
            is_restart=is_restart,
        )
    )
    if was_empty:
        # The first members come one after the other: without a delay, each of them would cause a rebalance.
        delay_ms = draft.settings.initial_rebalance_delay_ms
        remaining_ms = max(draft.group.rebalance_timeout_ms - delay_ms, 0)
        _set_initial_delay(draft, InitialDelay(current_ms=delay_ms, remaining_ms=remaining_ms))
    elif draft.group.all_joined:
        complete(draft)
    else:
        draft.set_timer(JoinTimer(draft.group.group_id), draft.group.rebalance_timeout_ms)


def initial_delay_ended(draft: ClassicDraft) -> None:
    """Extend the delay if further members have come, up to the rebalance timeout; otherwise go on without others."""
    delay = draft.group.initial_delay
    assert delay is not None
    if delay.member_added and delay.remaining_ms > 0:
        current_ms = min(draft.settings.initial_rebalance_delay_ms, delay.remaining_ms)
        remaining_ms = max(delay.remaining_ms - delay.current_ms, 0)
        _set_initial_delay(draft, InitialDelay(current_ms=current_ms, remaining_ms=remaining_ms))
    else:
        complete(draft)


def complete(draft: ClassicDraft) -> None:
    """Begin the next generation with the members that have joined, and with static members, who may be away."""
    draft.set_timer(JoinTimer(draft.group.group_id), None)
    timeout_ms = draft.group.rebalance_timeout_ms
    late = f"it has not joined the rebalance within {timeout_ms} ms"
    draft.remove_members(dict.fromkeys(_absent_dynamic_members(draft.group), late))
    leader = _joined_leader(draft.group)
    if draft.group.members and leader is None:
        # Only static members are left, all away. Their sessions end, or one of them joins.
        draft.set_timer(JoinTimer(draft.group.group_id), draft.group.rebalance_timeout_ms)
        return
    draft.group = replace(
        draft.group, leader=leader, generation=_next_generation(draft.group.generation), initial_delay=None
    )
    if draft.group.members:
        _begin_generation(draft)
    else:
        draft.become(ClassicGroupState.EMPTY)
        draft.group = replace(draft.group, protocol=None)
        draft.write_group()
        report_completed(draft, partitions=0)


def report_completed(draft: ClassicDraft, partitions: int | None) -> None:
    group = draft.group
    draft.report(
        RebalanceCompleted(
            group_id=group.group_id,
            epoch=group.generation,
            is_classic=True,
            members=len(group.members),
            partitions=partitions,
        )
    )


def joined(group: ClassicGroup, member_id: str) -> JoinGroupResponse:
    """Return the response to a member that belongs to the current generation."""
    assert group.leader is not None
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        member_id=member_id,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader,
        members=_as_leader_sees_them(group) if member_id == group.leader else (),
    )


def join_reason(event: str, request: JoinGroupRequest) -> str:
    """Return the reason of a rebalance that a JoinGroup causes, with the client's own (KIP-800)."""
    return f"{event}; client reason: {request.reason}" if request.reason else event


def _begin_generation(draft: ClassicDraft) -> None:
    draft.become(ClassicGroupState.COMPLETING_REBALANCE)
    group = draft.group
    known = {member.member_id: replace(member, is_new=False) for member in group.members.values() if member.is_new}
    joins = draft.take_joins()
    draft.group = group = replace(
        draft.group,
        protocol=select_protocol(group),
        members=group.members.with_changes(known),
        pending_syncs=PersistentMap(dict.fromkeys(group.members, True)),
    )
    for member_id, member in sorted(group.members.items()):
        ticket = joins.get(member_id)
        if ticket is not None:
            draft.reply(ticket, joined(group, member_id))
        draft.start_session(member)
    draft.set_timer(SyncTimer(group.group_id), group.rebalance_timeout_ms)


def _refuse_syncs(draft: ClassicDraft) -> None:
    """Refuse the requests that wait for an assignment of this generation: there will be none."""
    if draft.group.state is ClassicGroupState.COMPLETING_REBALANCE:
        unassigned = {each.member_id: replace(each, assignment=b"") for each in draft.group.members.values()}
        draft.group = replace(draft.group, members=draft.group.members.with_changes(unassigned))
        for member_id, ticket in sorted(draft.take_syncs().items()):
            draft.reply(ticket, rebalance_in_progress(draft.group.group_id))
            draft.start_session(draft.group.members[member_id])
    draft.group = replace(draft.group, pending_syncs=PersistentMap())


def _set_initial_delay(draft: ClassicDraft, delay: InitialDelay) -> None:
    draft.group = replace(draft.group, initial_delay=delay)
    draft.set_timer(JoinTimer(draft.group.group_id), delay.current_ms)


def _absent_dynamic_members(group: ClassicGroup) -> list[str]:
    if len(group.joins) == len(group.members):
        return []
    absent = [member for member in group.members.values() if member.member_id not in group.joins]
    return sorted(member.member_id for member in absent if member.group_instance_id is None)


def _joined_leader(group: ClassicGroup) -> str | None:
    """Return the leader if it has joined, else another member that has; None if nobody has."""
    return group.leader if group.leader in group.joins else min(group.joins, default=None)


def _as_leader_sees_them(group: ClassicGroup) -> tuple[JoinGroupResponseMember, ...]:
    return tuple(
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol),
        )
        for member in sorted(group.members.values(), key=lambda each: each.member_id)
    )


def _next_generation(generation: int) -> int:
    """Return the next number. After Int32's largest it is 0 again: negative ones mean that there is none."""
    return (generation + 1) & 0x7FFFFFFF
