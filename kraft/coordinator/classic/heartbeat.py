"""Heartbeat to a classic group."""

from __future__ import annotations

from kraft.coordinator.classic.draft import ClassicDraft, ClassicGroupDecision, refused
from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.classic.validation import (
    no_member,
    rebalance_in_progress,
    validate_generation,
)
from kraft.coordinator.shard import DecisionContext, Ticket
from kraft.model.errors import ErrorCode
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(
    group: ClassicGroup | None,
    ticket: Ticket,
    request: HeartbeatRequest,
    settings: ClassicSettings,
    context: DecisionContext,
) -> ClassicGroupDecision:
    """Decide a Heartbeat: it starts the session again, and its response says whether to join again."""
    if group is None:
        return refused(group, ticket, no_member(request.group_id, request.member_id))
    invalid = validate_generation(group, request.member_id, request.group_instance_id, request.generation_id)
    if invalid is not None:
        return refused(group, ticket, invalid)
    draft = ClassicDraft(group, settings, context)
    draft.start_session(group.members[request.member_id])
    is_preparing = group.state is ClassicGroupState.PREPARING_REBALANCE
    accepted = HeartbeatResponse(error_code=ErrorCode.NONE)
    draft.reply(ticket, rebalance_in_progress(group.group_id) if is_preparing else accepted)
    return draft.decision()
