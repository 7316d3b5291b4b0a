"""Decisions at the end of a timer, and the timers of a group that was just loaded."""

from __future__ import annotations

from kraft.coordinator.classic.draft import ClassicDraft, ClassicGroupDecision
from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from kraft.coordinator.classic.rebalance import complete, initial_delay_ended, prepare
from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.classic.timers import ClassicTimer, JoinTimer, SessionTimer, SyncTimer
from kraft.coordinator.shard import DecisionContext


def loaded(group: ClassicGroup, settings: ClassicSettings, context: DecisionContext) -> ClassicGroupDecision:
    """Decide what follows for a group as it was recorded: a new session for each member."""
    draft = ClassicDraft(group, settings, context)
    for member in group.members.values():
        draft.start_session(member)
    if group.members and group.leader is None:
        prepare(draft, "the group has just become a classic one")
    elif len(group.members) > settings.size_max:
        # The setting has become smaller. Members may commit their offsets before the last ones are left out.
        prepare(draft, f"the group has {len(group.members)} members, {settings.size_max} are allowed")
    return draft.decision()


def timer_ended(
    group: ClassicGroup, key: ClassicTimer, settings: ClassicSettings, context: DecisionContext
) -> ClassicGroupDecision:
    """Decide what the end of one of the group's timers leads to."""
    draft = ClassicDraft(group, settings, context)
    match key:
        case SessionTimer():
            _session_ended(draft, key.member_id)
        case JoinTimer():
            _join_time_ended(draft)
        case SyncTimer():
            _sync_time_ended(draft)
    return draft.decision()


def _session_ended(draft: ClassicDraft, member_id: str) -> None:
    group = draft.group
    member = group.members.get(member_id)
    if member is None and member_id not in group.pending_joins:
        return
    waits = member_id in group.joins or member_id in group.syncs
    if member is not None and waits and not member.is_new:
        return  # A member that waits for a response sends no heartbeats. Its session begins with the response.
    draft.remove_members({member_id: "" if member is None else _missed(draft, member)})
    if draft.group.state is ClassicGroupState.PREPARING_REBALANCE:
        if draft.group.all_joined:
            complete(draft)
    elif member is not None:
        prepare(draft, f"session of member {member_id} ended")


def _missed(draft: ClassicDraft, member: ClassicGroupMember) -> str:
    if member.is_new:
        return f"its first join has waited for {draft.settings.new_member_join_timeout_ms} ms"
    return f"no heartbeat within its session timeout of {member.session_timeout_ms} ms"


def _join_time_ended(draft: ClassicDraft) -> None:
    if draft.group.state is not ClassicGroupState.PREPARING_REBALANCE:
        return
    if draft.group.initial_delay is not None:
        initial_delay_ended(draft)
    else:
        complete(draft)


def _sync_time_ended(draft: ClassicDraft) -> None:
    """Remove the members that have not asked for their assignment, and begin the next rebalance."""
    late = sorted(draft.group.pending_syncs)
    if late:
        timeout_ms = draft.group.rebalance_timeout_ms
        draft.remove_members(dict.fromkeys(late, f"it has sent no SyncGroup within {timeout_ms} ms"))
        prepare(draft, f"members sent no SyncGroup: {', '.join(late)}")
