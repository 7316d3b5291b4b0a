"""LeaveGroup to a classic group."""

from __future__ import annotations

from kraft.coordinator.classic.draft import ClassicDraft, ClassicGroupDecision, refused
from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kraft.coordinator.classic.rebalance import prepare_or_complete
from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.classic.validation import validate_group_id, validate_member
from kraft.coordinator.shard import DecisionContext, Ticket
from kraft.model.errors import ErrorCode
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse


def leave_group(
    group: ClassicGroup | None,
    ticket: Ticket,
    request: LeaveGroupRequest,
    settings: ClassicSettings,
    context: DecisionContext,
) -> ClassicGroupDecision:
    """Decide a LeaveGroup: each member that it names has a result, and all that leave cause one rebalance."""
    refusal = validate_group_id(request.group_id)
    if refusal is not None:
        return refused(group, ticket, refusal)
    draft = ClassicDraft(group or ClassicGroup(group_id=request.group_id), settings, context)
    left: dict[str, MemberIdentity] = {}
    results = [left_member(each, _leave(draft.group, each, left)) for each in request.members]
    draft.remove_members({member_id: leave_reason(each) for member_id, each in left.items()}, have_left=True)
    draft.reply(ticket, LeaveGroupResponse(error_code=ErrorCode.NONE, members=tuple(results)))
    if left and draft.group.state is not ClassicGroupState.EMPTY:
        names = ", ".join(each.member_id or str(each.group_instance_id) for each in left.values())
        prepare_or_complete(draft, f"members left: {names}")
    return draft.decision()


def leave_reason(leaving: MemberIdentity) -> str:
    """Return why a member has left, as its client says (KIP-800)."""
    return f"client reason: {leaving.reason}" if leaving.reason else "its client has left, and gave no reason"


def _leave(group: ClassicGroup, leaving: MemberIdentity, left: dict[str, MemberIdentity]) -> ErrorCode:
    """Add a member to those that leave, by its member id, or by its instance id alone, as administrators do."""
    instance = group.static_members.get(leaving.group_instance_id or "")
    if instance in left:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if leaving.member_id:
        member_id: str | None = leaving.member_id
        is_pending = leaving.member_id in group.pending_joins
        refusal = None if is_pending else validate_member(group, leaving.member_id, leaving.group_instance_id)
        if refusal is not None:
            return refusal.error_code
    else:
        member_id = instance
    if member_id is None or member_id in left:
        return ErrorCode.UNKNOWN_MEMBER_ID
    left[member_id] = leaving
    return ErrorCode.NONE


def left_member(leaving: MemberIdentity, error_code: ErrorCode) -> MemberResponse:
    """Return the result for one member, named as in the request."""
    return MemberResponse(
        member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=error_code
    )
