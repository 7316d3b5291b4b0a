"""Decides heartbeats: members join, stay, change their subscription, and are led to their target assignment.

A heartbeat updates the member, bumps the group's epoch if its subscriptions or the metadata have changed, computes the
target assignment of a new epoch, and takes its member one step towards it. Members that leave are in `departures`.

Source: KIP-848, and `GroupMetadataManager.consumerGroupHeartbeat` in Kafka.
"""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.consumer.checks import (
    check_epoch,
    check_released,
    check_request,
    check_size,
    known_member,
    known_static_member,
    may_join_again,
)
from kraft.coordinator.consumer.departures import leave
from kraft.coordinator.consumer.draft import ConsumerDraft, ConsumerGroupDecision, refused
from kraft.coordinator.consumer.group import JOIN_EPOCH, ConsumerGroup, ConsumerGroupMember
from kraft.coordinator.consumer.member_updates import reconcile_member, replace_static_member, update_member
from kraft.coordinator.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatResponse
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.consumer.targets import assign
from kraft.coordinator.group_refusals import no_group
from kraft.coordinator.shard import DecisionContext, Reply, Ticket
from kraft.model.errors import Refusal


def decide_heartbeat(
    group: ConsumerGroup | None,
    ticket: Ticket,
    request: ConsumerHeartbeat,
    context: DecisionContext,
    settings: GroupSettings,
) -> ConsumerGroupDecision:
    """Decide a ConsumerGroupHeartbeat; the group is None if it does not exist."""
    try:
        check_request(request, settings)
        if group is None:
            if request.member_epoch != JOIN_EPOCH:
                raise no_group(request.group_id)
            group = ConsumerGroup(group_id=request.group_id)
        draft = ConsumerDraft(group)
        if request.member_epoch < JOIN_EPOCH:
            response = leave(draft, request, context.image)
        else:
            response = _stay(draft, request, context, settings)
    except Refusal as refusal:
        return refused(ticket, refusal)
    return draft.decision(Reply(ticket, response))


def _stay(
    draft: ConsumerDraft, request: ConsumerHeartbeat, context: DecisionContext, settings: GroupSettings
) -> ConsumerHeartbeatResponse:
    image = context.image
    check_size(draft.group, request.member_id, settings)
    member_id = request.member_id or context.random_id
    before = _identified(draft, member_id, request)
    if before.classic is not None:
        draft.stop_timers(before)
    subscription_changed = update_member(draft, before, _updated(before, request), image)
    assign(draft, context, settings)
    # A request of another epoch may be a late copy, from before the member got its partitions. Kafka believes it.
    is_current = request.member_epoch == before.epoch
    after = reconcile_member(
        draft,
        member_id,
        request.owned if is_current else None,
        image,
        subscription_changed=subscription_changed,
        may_be_late=not is_current or request.member_epoch == JOIN_EPOCH,
    )
    draft.start_session(after, settings)
    sends_assignment = after.assigned != before.assigned or not _knows_assignment(request, before)
    return ConsumerHeartbeatResponse(
        member_id=member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        assignment=after.assigned if sends_assignment else None,
    )


def _knows_assignment(request: ConsumerHeartbeat, member: ConsumerGroupMember) -> bool:
    """Return whether the member has heard what it is assigned.

    Kafka takes any member that has not sent everything to know it, even if a late copy took its last step.
    """
    if request.member_epoch == JOIN_EPOCH or request.is_full or member.is_unheard:
        return False
    return request.member_epoch == member.epoch or request.owned == member.assigned


# --- who it is -------------------------------------------------------------------------------------------------------


def _identified(draft: ConsumerDraft, member_id: str, request: ConsumerHeartbeat) -> ConsumerGroupMember:
    """Return the member that sent the heartbeat, as it was before; a new one if it joins."""
    if request.instance_id is not None:
        return _identified_static(draft, member_id, request.instance_id, request)
    if request.member_epoch == JOIN_EPOCH:
        # A member that was fenced joins again under its id. Its next heartbeat says what it has given up.
        return draft.group.members.get(member_id) or ConsumerGroupMember(member_id=member_id)
    member = known_member(draft.group, member_id)
    check_epoch(member, request)
    return member


def _identified_static(
    draft: ConsumerDraft, member_id: str, instance_id: str, request: ConsumerHeartbeat
) -> ConsumerGroupMember:
    if request.member_epoch != JOIN_EPOCH:
        member = known_static_member(draft.group, instance_id, member_id)
        check_epoch(member, request)
        return member
    predecessor = draft.group.static_member(instance_id)
    if predecessor is None:
        return draft.group.members.get(member_id) or ConsumerGroupMember(member_id=member_id)
    if predecessor.member_id == member_id and may_join_again(predecessor, request):
        # Kafka refuses this second attempt to join, and the member waits until the session of its first one ends.
        return predecessor
    check_released(predecessor, member_id)
    return replace_static_member(draft, predecessor, member_id)


# --- what it wants ---------------------------------------------------------------------------------------------------


def _updated(member: ConsumerGroupMember, request: ConsumerHeartbeat) -> ConsumerGroupMember:
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=member.topics if request.topics is None else request.topics,
        topic_regex=member.topic_regex if request.topic_regex is None else request.topic_regex,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )
