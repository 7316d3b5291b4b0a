"""Decides requests of the classic protocol to a group of the consumer protocol (KIP-848, online upgrade).

To a classic member, its epoch is the generation, and the server is the leader: a JoinGroup is answered at once and
assigns, a SyncGroup returns the assignment, and a Heartbeat asks the member to join again if it has a step to take. The
member has its rebalance timeout to join again, and as long again to ask for its assignment.

Source: `classicGroupJoinToConsumerGroup` and the like in Kafka's `GroupMetadataManager`.
"""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.classic.group import effective_rebalance_timeout_ms
from kraft.coordinator.classic.leave import leave_reason, left_member
from kraft.coordinator.classic.messages import JoinGroup, MemberIdRequired
from kraft.coordinator.classic.validation import illegal_generation, rebalance_in_progress, unknown_member
from kraft.coordinator.consumer.checks import (
    check_size,
    check_topic_names,
    known_member,
    known_static_member,
)
from kraft.coordinator.consumer.departures import remove
from kraft.coordinator.consumer.draft import METADATA_CHANGED, ConsumerDraft, ConsumerGroupDecision, refused
from kraft.coordinator.consumer.group import ClassicProtocols, ConsumerGroup, ConsumerGroupMember, MemberState
from kraft.coordinator.consumer.member_updates import reconcile_member, replace_static_member, update_member
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.consumer.targets import assign
from kraft.coordinator.consumer_protocol import (
    InvalidConsumerProtocol,
    decode_subscription,
    encode_assignment,
    partitions_of,
)
from kraft.coordinator.offsets.group_facts import CONSUMER_PROTOCOL_TYPE
from kraft.coordinator.shard import DecisionContext, Reply, Ticket
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal
from kraft.wire.schema.consumer_protocol import ConsumerProtocolSubscription
from kraft.wire.schema.heartbeat import HeartbeatRequest, HeartbeatResponse
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupResponse
from kraft.wire.schema.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupResponse

# --- JoinGroup -------------------------------------------------------------------------------------------------------


def decide_join(
    group: ConsumerGroup, ticket: Ticket, command: JoinGroup, context: DecisionContext, settings: GroupSettings
) -> ConsumerGroupDecision:
    """Decide a JoinGroup; the session timeout was checked."""
    draft = ConsumerDraft(group)
    try:
        joined = _join(draft, command, context, settings)
    except Refusal as refusal:
        return refused(ticket, refusal)
    return draft.decision(Reply(ticket, joined))


def _join(
    draft: ConsumerDraft, command: JoinGroup, context: DecisionContext, settings: GroupSettings
) -> JoinGroupResponse:
    request = command.request
    member_id = request.member_id or context.random_id
    check_size(draft.group, member_id, settings)
    subscription = _subscription(draft.group, request)
    if not request.member_id and request.group_instance_id is None and command.member_id_required:
        raise MemberIdRequired(member_id)
    before = _identified(draft, member_id, request)
    draft.stop_timers(before)
    after = _updated(before, command, subscription)
    subscription_changed = update_member(draft, before, after, context.image)
    assign(draft, context, settings)
    owned = partitions_of(subscription.owned_partitions, context.image)
    member = reconcile_member(draft, member_id, owned, context.image, subscription_changed=subscription_changed)
    draft.start_session(member, settings)
    draft.start_sync(member)
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        member_id=member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
        leader="",
        members=(),
    )


def _subscription(group: ConsumerGroup, request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """Return what the member subscribes to. It needs a protocol in common with all other classic members."""
    supporters, members = group.classic_supporters, group.classic_members
    is_supported = any(supporters.get(offered.name, 0) == members for offered in request.protocols)
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not is_supported:
        message = f"no protocol of the member is supported by all classic members of group {group.group_id!r}"
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    try:
        subscription = decode_subscription(request.protocols[0].metadata)
    except InvalidConsumerProtocol as error:
        message = f"the member's metadata is no subscription: {error}"
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message) from error
    check_topic_names(subscription.topics)
    return subscription


def _identified(draft: ConsumerDraft, member_id: str, request: JoinGroupRequest) -> ConsumerGroupMember:
    """Return the member that joins, as it was before. A static one takes its own place without having left it."""
    instance_id = request.group_instance_id
    if instance_id is not None and request.member_id:
        return known_static_member(draft.group, instance_id, member_id)
    predecessor = None if instance_id is None else draft.group.static_member(instance_id)
    if predecessor is not None:
        return replace_static_member(draft, predecessor, member_id)
    return draft.group.members.get(member_id) or ConsumerGroupMember(member_id=member_id)


def _updated(
    member: ConsumerGroupMember, command: JoinGroup, subscription: ConsumerProtocolSubscription
) -> ConsumerGroupMember:
    request = command.request
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=command.client.client_id,
        client_host=command.client.client_host,
        topics=frozenset(subscription.topics),
        topic_regex="",
        rebalance_timeout_ms=effective_rebalance_timeout_ms(request.rebalance_timeout_ms, request.session_timeout_ms),
        classic=ClassicProtocols(session_timeout_ms=request.session_timeout_ms, offered=request.protocols),
    )


# --- SyncGroup and Heartbeat -----------------------------------------------------------------------------------------


def decide_sync(
    group: ConsumerGroup, ticket: Ticket, request: SyncGroupRequest, context: DecisionContext, settings: GroupSettings
) -> ConsumerGroupDecision:
    """Decide a SyncGroup: it starts the session again, and its response is the assignment."""
    draft = ConsumerDraft(group)
    try:
        member, classic = _known(group, request.member_id, request.group_instance_id, request.generation_id)
        _check_protocol(classic, request)
    except Refusal as refusal:
        return refused(ticket, refusal)
    if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        draft.start_rejoin(member)
        return draft.decision(Reply(ticket, rebalance_in_progress(group.group_id)))
    draft.stop_sync(member)
    draft.start_session(member, settings)
    return draft.decision(Reply(ticket, _synced(member, classic, request, context.image)))


def decide_heartbeat(
    group: ConsumerGroup, ticket: Ticket, request: HeartbeatRequest, context: DecisionContext, settings: GroupSettings
) -> ConsumerGroupDecision:
    """Decide a Heartbeat: it starts the session again, and its response says whether to join again."""
    try:
        member, _ = _known(group, request.member_id, request.group_instance_id, request.generation_id)
    except Refusal as refusal:
        return refused(ticket, refusal)
    draft = ConsumerDraft(group)
    draft.start_session(member, settings)
    new_hash = group.metadata_hash_with(context.image)
    if new_hash != group.metadata_hash:
        # Kafka notices it only with a heartbeat of the consumer protocol, which may never come.
        draft.bump_epoch(new_hash, METADATA_CHANGED)
    assign(draft, context, settings)
    if not _has_to_rejoin(draft.group, member):
        return draft.decision(Reply(ticket, HeartbeatResponse(error_code=ErrorCode.NONE)))
    draft.start_rejoin(member)
    return draft.decision(Reply(ticket, rebalance_in_progress(group.group_id)))


def _known(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerGroupMember, ClassicProtocols]:
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = known_static_member(group, instance_id, member_id)
    if member.classic is None:
        raise unknown_member(group.group_id, member_id)
    if generation != member.epoch:
        raise illegal_generation(group.group_id, generation)
    return member, member.classic


def _check_protocol(classic: ClassicProtocols, request: SyncGroupRequest) -> None:
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        message = f"the protocol type is {CONSUMER_PROTOCOL_TYPE}, not {request.protocol_type}"
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
    if request.protocol_name not in (None, classic.preferred.name):
        message = f"the protocol of this member is {classic.preferred.name}, not {request.protocol_name}"
        raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)


def _synced(
    member: ConsumerGroupMember, classic: ClassicProtocols, request: SyncGroupRequest, image: MetadataImage
) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(member.assigned, image, classic.preferred.metadata),
    )


def _has_to_rejoin(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether the member has a step to take, for which it has to join again.

    A new epoch is a step only when its target assignment is there.
    """
    match member.state:
        case MemberState.UNREVOKED_PARTITIONS:
            return True
        case MemberState.UNRELEASED_PARTITIONS:
            return member.epoch < group.assignment_epoch or not _waits_for_others(group, member)
        case _:
            return member.epoch < group.assignment_epoch


def _waits_for_others(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    missing = group.target(member.member_id) - member.assigned
    return any(group.owners.get(partition, member.member_id) != member.member_id for partition in missing)


# --- LeaveGroup ------------------------------------------------------------------------------------------------------


def decide_leave(
    group: ConsumerGroup, ticket: Ticket, request: LeaveGroupRequest, context: DecisionContext
) -> ConsumerGroupDecision:
    """Decide a LeaveGroup. An administrator may remove members of either protocol by it."""
    leaving: dict[str, str] = {}
    results = []
    for each in request.members:
        error_code = ErrorCode.NONE
        try:
            member = _leaving(group, each)
            leaving[member.member_id] = leave_reason(each)
        except Refusal as refusal:
            error_code = refusal.error_code
        results.append(left_member(each, error_code))
    draft = ConsumerDraft(group)
    if leaving:
        remove(draft, leaving, context.image, have_left=True)
    return draft.decision(Reply(ticket, LeaveGroupResponse(error_code=ErrorCode.NONE, members=tuple(results))))


def _leaving(group: ConsumerGroup, leaving: MemberIdentity) -> ConsumerGroupMember:
    if leaving.group_instance_id is None:
        return known_member(group, leaving.member_id)
    member = group.static_member(leaving.group_instance_id)
    member_id = leaving.member_id or ("" if member is None else member.member_id)
    return known_static_member(group, leaving.group_instance_id, member_id)
