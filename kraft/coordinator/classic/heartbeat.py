"""Heartbeat to a classic group."""

from __future__ import annotations

from kraft.coordinator.classic.draft import ClassicDraft, ClassicGroupDecision, refused
from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kraft.coordinator.classic.messages import Heartbeat, HeartbeatAccepted
from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.classic.validation import (
    rebalance_in_progress,
    unknown_member,
    validate_generation,
    validate_group_id,
)
from kraft.coordinator.shard import DecisionContext, Ticket


def heartbeat(
    group: ClassicGroup | None, ticket: Ticket, request: Heartbeat, settings: ClassicSettings, context: DecisionContext
) -> ClassicGroupDecision:
    """Decide a Heartbeat: it starts the session again, and its response says whether to join again."""
    if group is None:
        refusal = validate_group_id(request.group_id) or unknown_member(request.group_id, request.member_id)
        return refused(group, ticket, refusal)
    invalid = validate_generation(group, request.member_id, request.group_instance_id, request.generation)
    if invalid is not None:
        return refused(group, ticket, invalid)
    draft = ClassicDraft(group, settings, context)
    draft.start_session(group.members[request.member_id])
    is_preparing = group.state is ClassicGroupState.PREPARING_REBALANCE
    draft.reply(ticket, rebalance_in_progress(group.group_id) if is_preparing else HeartbeatAccepted())
    return draft.decision()
