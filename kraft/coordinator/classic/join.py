"""JoinGroup to a classic group."""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.classic.draft import ClassicDraft, ClassicGroupDecision, refused
from kraft.coordinator.classic.group import (
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
    add_member,
    as_requested,
    effective_rebalance_timeout_ms,
    supports,
    update_member,
)
from kraft.coordinator.classic.messages import JoinGroup, MemberIdRequired
from kraft.coordinator.classic.rebalance import join_reason, joined, prepare_or_complete
from kraft.coordinator.classic.settings import ClassicSettings
from kraft.coordinator.classic.static_members import replace_static_member
from kraft.coordinator.classic.timers import SessionTimer
from kraft.coordinator.classic.validation import unknown_member, validate_join, validate_member
from kraft.coordinator.group_events import MemberJoined
from kraft.coordinator.shard import DecisionContext, Ticket
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.join_group import JoinGroupRequest


def join_group(
    group: ClassicGroup | None, ticket: Ticket, command: JoinGroup, settings: ClassicSettings, context: DecisionContext
) -> ClassicGroupDecision:
    """Decide a JoinGroup. A group comes into being when a member without an id joins it."""
    request = command.request
    refusal = validate_join(request, settings)
    if refusal is None and group is None and request.member_id:
        refusal = unknown_member(request.group_id, request.member_id)
    if refusal is not None:
        return refused(group, ticket, refusal)
    draft = ClassicDraft(group or ClassicGroup(group_id=request.group_id), settings, context)
    if not _has_room(draft.group, request, settings.size_max):
        if request.member_id:
            draft.remove_members({request.member_id: f"the group has {settings.size_max} members without it"})
        draft.reply(ticket, _full(request.group_id, settings.size_max))
    elif not supports(draft.group, request.protocol_type, request.protocols):
        draft.reply(ticket, _inconsistent(request))
    elif not request.member_id:
        _join_without_id(draft, ticket, command)
    elif request.member_id in draft.group.pending_joins and request.group_instance_id is None:
        _add(draft, ticket, command, request.member_id)
    else:
        _join_again(draft, ticket, request)
    return draft.decision()


def _join_without_id(draft: ClassicDraft, ticket: Ticket, command: JoinGroup) -> None:
    request = command.request
    if request.group_instance_id in draft.group.static_members:
        replace_static_member(draft, ticket, command)
        return
    member_id = draft.new_member_id(request.group_instance_id or command.client.client_id)
    if request.group_instance_id is not None or not command.member_id_required:
        _add(draft, ticket, command, member_id)
        return
    # A response that is lost leaves no member behind that a rebalance would wait for (KIP-394).
    draft.group = replace(draft.group, pending_joins=draft.group.pending_joins.with_changes({member_id: True}))
    draft.set_timer(SessionTimer(request.group_id, member_id), request.session_timeout_ms)
    draft.reply(ticket, MemberIdRequired(member_id))


def _add(draft: ClassicDraft, ticket: Ticket, command: JoinGroup, member_id: str) -> None:
    request = command.request
    member = ClassicGroupMember(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=command.client.client_id,
        client_host=command.client.client_host,
        rebalance_timeout_ms=effective_rebalance_timeout_ms(request.rebalance_timeout_ms, request.session_timeout_ms),
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
        is_new=True,
    )
    draft.group = add_member(draft.group, member, request.protocol_type)
    draft.report(
        MemberJoined(
            group_id=request.group_id,
            member_id=member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
        )
    )
    if draft.group.initial_delay is not None:
        draft.group = replace(draft.group, initial_delay=replace(draft.group.initial_delay, member_added=True))
    draft.park_join(member_id, ticket)
    draft.set_timer(SessionTimer(request.group_id, member_id), draft.settings.new_member_join_timeout_ms)
    prepare_or_complete(draft, join_reason(f"member {member_id} joined", request))


def _join_again(draft: ClassicDraft, ticket: Ticket, request: JoinGroupRequest) -> None:
    """Decide the JoinGroup of a member. A rebalance begins if the member has changed, or leads a stable group."""
    group = draft.group
    refusal = validate_member(group, request.member_id, request.group_instance_id)
    if refusal is not None:
        draft.reply(ticket, refusal)
        return
    is_unchanged = group.members[request.member_id].protocols == request.protocols
    # A leader of a stable group joins because of what the coordinator does not see, such as new partitions.
    leads_stable_group = group.state is ClassicGroupState.STABLE and group.leader == request.member_id
    if is_unchanged and not leads_stable_group and group.state is not ClassicGroupState.PREPARING_REBALANCE:
        draft.reply(ticket, joined(group, request.member_id))
        return
    draft.group = update_member(group, as_requested(group.members[request.member_id], request))
    draft.park_join(request.member_id, ticket)
    what = "joined again" if is_unchanged else "changed its protocols or metadata"
    prepare_or_complete(draft, join_reason(f"member {request.member_id} {what}", request))


def _has_room(group: ClassicGroup, request: JoinGroupRequest, size_max: int) -> bool:
    instance_id = request.group_instance_id
    if instance_id is not None and instance_id not in group.static_members and len(group.static_members) >= size_max:
        return False  # Static members that are away do not count below, and stay until their sessions end.
    match group.state:
        case ClassicGroupState.PREPARING_REBALANCE:
            # Those that have joined count, so that of a group that has become too large the last ones are left out.
            return request.member_id in group.joins or len(group.joins) < size_max
        case ClassicGroupState.COMPLETING_REBALANCE | ClassicGroupState.STABLE:
            return request.member_id in group.members or len(group.members) < size_max
        case _:
            return True


def _full(group_id: str, size_max: int) -> Refusal:
    message = f"group {group_id!r} has {size_max} members already: raise group.max.size of the brokers"
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def _inconsistent(request: JoinGroupRequest) -> Refusal:
    names = ", ".join(offered.name for offered in request.protocols) or "none"
    message = f"no protocol of the member ({request.protocol_type}: {names}) is supported by all others of the group"
    return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
