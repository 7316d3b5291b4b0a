"""Decides heartbeats: members join, stay, change their subscription, and are led to their target assignment.

A heartbeat updates the member, bumps the group's epoch if its subscriptions or the metadata have changed, computes the
target assignment of a new epoch, and takes its member one step towards it. Members that leave are in `departures`.

Source: KIP-848, and `GroupMetadataManager.consumerGroupHeartbeat` in Kafka.
"""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.checks import (
    check_epoch,
    check_released,
    check_request,
    check_size,
    known_member,
    known_static_member,
    may_have_missed_response,
)
from kraft.coordinator.consumer.departures import leave
from kraft.coordinator.consumer.draft import Draft, GroupDecision, refused
from kraft.coordinator.consumer.group import JOIN_EPOCH, ConsumerGroup, Member, MemberState
from kraft.coordinator.consumer.reconciliation import Goal, reconciled
from kraft.coordinator.consumer.requests import GroupSettings, Heartbeat, HeartbeatResponse
from kraft.coordinator.consumer.targets import assign, metadata_hash
from kraft.coordinator.shard import Context, Reply, Ticket
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal


def decide_heartbeat(
    group: ConsumerGroup | None, ticket: Ticket, request: Heartbeat, context: Context, settings: GroupSettings
) -> GroupDecision:
    """Decide a ConsumerGroupHeartbeat; the group is None if it does not exist."""
    try:
        check_request(request, settings)
        if group is None:
            if request.member_epoch != JOIN_EPOCH:
                raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} does not exist.")
            group = ConsumerGroup(group_id=request.group_id)
        draft = Draft(group)
        if request.member_epoch < JOIN_EPOCH:
            response = leave(draft, request, context.image)
        else:
            response = _stay(draft, request, context, settings)
    except Refusal as refusal:
        return refused(ticket, refusal)
    return draft.decision(Reply(ticket, response))


def _stay(draft: Draft, request: Heartbeat, context: Context, settings: GroupSettings) -> HeartbeatResponse:
    image = context.image
    check_size(draft.group, request.member_id, settings)
    member_id = request.member_id or context.random_id
    before = _identified(draft, member_id, request)
    subscription_changed = _update(draft, before, request, image)
    assign(draft, image, settings)
    after = _reconcile(draft, member_id, request, image, subscription_changed=subscription_changed)
    draft.start_session(member_id, settings)
    is_told = request.member_epoch == JOIN_EPOCH or request.is_full or after.assigned != before.assigned
    return HeartbeatResponse(
        member_id=member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        assignment=after.assigned if is_told else None,
    )


# --- who it is -------------------------------------------------------------------------------------------------------


def _identified(draft: Draft, member_id: str, request: Heartbeat) -> Member:
    """Return the member that sent the heartbeat, as it was before; a new one if it joins."""
    if request.instance_id is not None:
        return _identified_static(draft, member_id, request.instance_id, request)
    if request.member_epoch == JOIN_EPOCH:
        member = draft.group.members.get(member_id) or Member(member_id=member_id)
    else:
        member = known_member(draft.group, member_id)
    check_epoch(member, request)
    return member


def _identified_static(draft: Draft, member_id: str, instance_id: str, request: Heartbeat) -> Member:
    if request.member_epoch != JOIN_EPOCH:
        member = known_static_member(draft.group, instance_id, member_id)
        check_epoch(member, request)
        return member
    predecessor = draft.group.static_member(instance_id)
    if predecessor is None:
        return draft.group.members.get(member_id) or Member(member_id=member_id)
    if predecessor.member_id == member_id and may_have_missed_response(predecessor, request):
        # Kafka refuses this second attempt to join, and the member waits until the session of its first one ends.
        return predecessor
    check_released(predecessor, member_id)
    return _replace(draft, predecessor, member_id)


def _replace(draft: Draft, predecessor: Member, member_id: str) -> Member:
    """Give the assignments of a static member that has left to the one that returns in its place."""
    target = draft.group.target(predecessor.member_id)
    member = replace(predecessor, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    draft.remove_member(predecessor)
    group_id = draft.group.group_id
    draft.emit(
        records.member_metadata(group_id, member),
        records.target_assignment(group_id, member_id, target),
        records.current_assignment(group_id, member),
    )
    return member


# --- what it wants ---------------------------------------------------------------------------------------------------


def _update(draft: Draft, before: Member, request: Heartbeat, image: MetadataImage) -> bool:
    """Record what the member tells about itself, and bump the epoch if need be; return if its subscription changed."""
    after = _updated(before, request)
    if after != draft.group.members.get(after.member_id):
        draft.emit(records.member_metadata(draft.group.group_id, after))
    names_changed = after.topics != before.topics
    regex_changed = after.topic_regex != before.topic_regex
    if regex_changed:
        draft.remove_unused_regex(before.topic_regex)
    # An expression that has to be resolved first changes the assignment only then.
    regex_counts = regex_changed and (not after.topic_regex or after.topic_regex in draft.group.regexes)
    new_hash = metadata_hash(draft.group, image)
    if draft.group.epoch == 0 or names_changed or regex_counts or new_hash != draft.group.metadata_hash:
        draft.bump_epoch(new_hash)
    return names_changed or regex_changed


def _updated(member: Member, request: Heartbeat) -> Member:
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
    )


# --- what it gets ----------------------------------------------------------------------------------------------------


def _reconcile(
    draft: Draft, member_id: str, request: Heartbeat, image: MetadataImage, *, subscription_changed: bool
) -> Member:
    group = draft.group
    before = group.members[member_id]
    goal = Goal(
        assignment_epoch=group.assignment_epoch,
        target=group.target(member_id),
        topics=group.topic_ids_of(before, image),
        owners=group.owners,
    )
    # One of the previous epoch may be late, from before the member got its partitions. Kafka takes it at its word.
    owned = request.owned if request.member_epoch == before.epoch else None
    after = reconciled(before, goal, owned, subscription_changed=subscription_changed)
    if after != before:
        draft.emit(records.current_assignment(group.group_id, after))
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            draft.start_rebalance(after)
        else:
            draft.stop_rebalance(before)
    return after
