"""Decides departures: members that leave, miss their deadlines, or are away for a while; and groups that are deleted.

The group's epoch is bumped, and the next heartbeat of any member computes the target assignment without the member
that is gone.
"""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.assignors.assignor import NO_PARTITIONS
from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.checks import check_deletion, known_member, known_static_member
from kraft.coordinator.consumer.draft import NOTHING, Draft, GroupDecision, refused
from kraft.coordinator.consumer.group import LEFT_STATIC_EPOCH, ConsumerGroup, Member, MemberState
from kraft.coordinator.consumer.requests import (
    GroupSettings,
    Heartbeat,
    HeartbeatResponse,
    RebalanceTimeout,
    SessionTimeout,
)
from kraft.coordinator.consumer.targets import metadata_hash
from kraft.coordinator.shard import Context, Decision, Reply, Ticket
from kraft.metadata.image import MetadataImage
from kraft.model.errors import Refusal


def leave(draft: Draft, request: Heartbeat, image: MetadataImage) -> HeartbeatResponse:
    """Let a member go. Its epoch is not checked: whatever it is, the member is about to end."""
    if request.instance_id is None:
        member = known_member(draft.group, request.member_id)
    else:
        member = known_static_member(draft.group, request.instance_id, request.member_id)
    if request.member_epoch == LEFT_STATIC_EPOCH:
        _leave_for_a_while(draft, member)
    else:
        _remove(draft, member, image)
    return HeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)


def _leave_for_a_while(draft: Draft, member: Member) -> None:
    """Keep what is assigned to a static member for its return. Its session goes on, and ends its membership if not."""
    gone = replace(member, epoch=LEFT_STATIC_EPOCH, pending_revocation=NO_PARTITIONS)
    draft.emit(records.current_assignment(draft.group.group_id, gone))
    draft.stop_rebalance(member)


def _remove(draft: Draft, member: Member, image: MetadataImage) -> None:
    draft.remove_member(member)
    draft.remove_unused_regex(member.topic_regex)
    draft.bump_epoch(metadata_hash(draft.group, image))


def decide_timer_ended(
    group: ConsumerGroup | None, key: SessionTimeout | RebalanceTimeout, context: Context
) -> GroupDecision:
    """Remove a member that sent no heartbeat, or did not give up its partitions, in time."""
    member = None if group is None else group.members.get(key.member_id)
    if group is None or member is None:
        return NOTHING
    if isinstance(key, RebalanceTimeout):
        still_there = member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch == key.member_epoch
        if not still_there:
            return NOTHING
    draft = Draft(group)
    _remove(draft, member, context.image)
    return draft.decision()


def decide_loaded(group: ConsumerGroup, settings: GroupSettings) -> GroupDecision:
    """Start the timers of a group after its coordinator has loaded it: every member gets the whole time again."""
    draft = Draft(group)
    for member in group.members.values():
        draft.start_session(member.member_id, settings)
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch != LEFT_STATIC_EPOCH:
            draft.start_rebalance(member)
    return draft.decision()


def decide_deletion(group: ConsumerGroup, ticket: Ticket) -> GroupDecision:
    """Delete a group without members. Its offsets are not the group's: who asks deletes them."""
    try:
        check_deletion(group)
    except Refusal as refusal:
        return refused(ticket, refusal)
    return Decision(volatile=None, records=tuple(records.without_group(group)), replies=(Reply(ticket, None),))
