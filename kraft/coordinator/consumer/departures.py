"""Decides departures: members that leave, miss their deadlines, or are away for a while; and groups that are deleted.

The group's epoch is bumped, and the next heartbeat of any member computes the target assignment without the member
that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from msgspec.structs import replace

from kraft.coordinator.assignors.assignor import NO_PARTITIONS
from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.checks import check_deletion, known_member, known_static_member
from kraft.coordinator.consumer.draft import NOTHING, ConsumerDraft, ConsumerGroupDecision, refused
from kraft.coordinator.consumer.group import LEFT_STATIC_EPOCH, ConsumerGroup, ConsumerGroupMember, MemberState
from kraft.coordinator.consumer.requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    ConsumerTimer,
    RebalanceTimeout,
    RejoinTimeout,
    SessionTimeout,
    SyncTimeout,
)
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.consumer.targets import wait_ms
from kraft.coordinator.group_events import MemberAway, MemberGone
from kraft.coordinator.shard import DecisionContext, Reply, ShardDecision, Ticket
from kraft.metadata.image import MetadataImage
from kraft.model.errors import Refusal


def leave(draft: ConsumerDraft, request: ConsumerHeartbeat, image: MetadataImage) -> ConsumerHeartbeatResponse:
    """Let a member go. Its epoch is not checked: whatever it is, the member is about to end."""
    if request.instance_id is None:
        member = known_member(draft.group, request.member_id)
    else:
        member = known_static_member(draft.group, request.instance_id, request.member_id)
    if request.member_epoch == LEFT_STATIC_EPOCH:
        _leave_for_a_while(draft, member)
    else:
        remove(draft, {member.member_id: "its client has closed it"}, image, have_left=True)
    return ConsumerHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)


def _leave_for_a_while(draft: ConsumerDraft, member: ConsumerGroupMember) -> None:
    """Keep the assignment of a static member until it returns. If it does not, the end of its session removes it."""
    gone = replace(member, epoch=LEFT_STATIC_EPOCH, pending_revocation=NO_PARTITIONS)
    draft.emit(records.current_assignment(draft.group.group_id, gone))
    draft.stop_rebalance(member)
    away = MemberAway(group_id=draft.group.group_id, member_id=member.member_id, instance_id=member.instance_id)
    draft.report(away)


def remove(draft: ConsumerDraft, reasons: Mapping[str, str], image: MetadataImage, *, have_left: bool = False) -> None:
    """Remove members; `reasons` says why, for each of them. The epoch is bumped once for all of them."""
    group_id = draft.group.group_id
    for member_id, reason in reasons.items():
        member = draft.group.members[member_id]
        draft.remove_member(member)
        draft.remove_unused_regex(member.topic_regex)
        draft.report(
            MemberGone(
                group_id=group_id,
                member_id=member_id,
                instance_id=member.instance_id,
                reason=reason,
                has_left=have_left,
            )
        )
    who = f"member {member_id}" if len(reasons) == 1 else f"{len(reasons)} members"
    what = "left" if have_left else f"removed: {reason}"
    draft.bump_epoch(draft.group.metadata_hash_with(image), f"{who} {what}")


def decide_timer_ended(
    group: ConsumerGroup | None, key: ConsumerTimer, context: DecisionContext
) -> ConsumerGroupDecision:
    """Remove a member that missed its deadline; the timers say which."""
    member = None if group is None else group.members.get(key.member_id)
    if group is None or member is None or not _still_applies(key, member):
        return NOTHING
    draft = ConsumerDraft(group)
    remove(draft, {member.member_id: _missed(key, member)}, context.image)
    return draft.decision()


def _missed(key: ConsumerTimer, member: ConsumerGroupMember) -> str:
    """Return why the end of a timer removes its member."""
    match key:
        case SessionTimeout() if member.epoch == LEFT_STATIC_EPOCH:
            return "it has not come back within its session timeout"
        case SessionTimeout():
            return "no heartbeat within its session timeout"
        case RebalanceTimeout():
            late = "it has not given up partitions"
        case RejoinTimeout():
            late = "it has not joined again"
        case SyncTimeout():
            late = "it has not asked for its assignment"
        case _:
            assert_never(key)
    return f"{late} within its rebalance timeout of {member.rebalance_timeout_ms} ms"


def _still_applies(key: ConsumerTimer, member: ConsumerGroupMember) -> bool:
    """Return whether the member still is in the state for which the timer was set."""
    match key:
        case RebalanceTimeout():
            return member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch == key.member_epoch
        case RejoinTimeout() | SyncTimeout():
            return member.classic is not None
        case _:
            return True


def decide_loaded(group: ConsumerGroup, settings: GroupSettings, context: DecisionContext) -> ConsumerGroupDecision:
    """Start the timers of a group after its coordinator has loaded it: every member gets the whole time again."""
    draft = ConsumerDraft(group)
    # To hash many topics takes long, and this runs in a thread: the first heartbeat finds the sum computed.
    group.metadata_hash_with(context.image)
    if group.is_due:
        draft.start_assignment(wait_ms(group.assignment_ms, context, settings))
    for member in group.members.values():
        draft.start_session(member, settings)
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch != LEFT_STATIC_EPOCH
        if is_revoking and member.classic is None:  # A classic member is asked to join again by its next heartbeat.
            draft.start_rebalance(member)
    return draft.decision()


def decide_deletion(group: ConsumerGroup, ticket: Ticket) -> ConsumerGroupDecision:
    """Delete a group without members. The caller deletes its offsets, which are not part of the group."""
    try:
        check_deletion(group)
    except Refusal as refusal:
        return refused(ticket, refusal)
    return ShardDecision(volatile=None, records=tuple(records.without_group(group)), replies=(Reply(ticket, None),))
