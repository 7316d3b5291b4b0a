"""Upgrade: a classic group becomes one of the consumer protocol when the first member of that protocol joins.

An empty group changes its kind without a policy. Members of the classic protocol stay members: they keep what they
have, and their next heartbeat asks them to join again. Requests that wait for the end of a rebalance are refused, so
that their senders join the new group. Member ids that were given out can be used to join it, too.

Source: `convertToConsumerGroup` in Kafka's `GroupMetadataManager`, and KIP-848. Unlike in Kafka, a member that may not
have given up partitions yet still owns them, and a group whose rebalance was under way always assigns again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from msgspec.structs import replace

from kraft.coordinator.assignors.assignor import NO_PARTITIONS, Partitions
from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupMember, ClassicGroupState
from kraft.coordinator.classic.timers import JoinTimer, SessionTimer, SyncTimer
from kraft.coordinator.classic.validation import rebalance_in_progress
from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.group import (
    FIRST_EPOCH,
    ClassicProtocols,
    ConsumerGroup,
    ConsumerGroupMember,
    MemberState,
)
from kraft.coordinator.consumer.heartbeats import decide_heartbeat
from kraft.coordinator.consumer.requests import ConsumerHeartbeat, SessionTimeout
from kraft.coordinator.consumer.settings import GroupSettings
from kraft.coordinator.consumer_protocol import (
    InvalidConsumerProtocol,
    decode_assignment,
    decode_subscription,
    partitions_of,
)
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.groups.replicated import group_tombstones
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.state import GroupsState
from kraft.coordinator.groups.volatile import GroupsDecision
from kraft.coordinator.offsets.group_facts import CONSUMER_PROTOCOL_TYPE
from kraft.coordinator.shard import Reply, ShardDecision, Ticket, TimerKey
from kraft.metadata.image import MetadataImage
from kraft.model.errors import ErrorCode, Refusal


def join_classic_group(
    state: GroupsState, classic: ClassicGroup, ticket: Ticket, request: ConsumerHeartbeat
) -> GroupsDecision:
    """Decide the join of a member of the consumer protocol to a classic group. Refused, it changes nothing."""
    settings = state.settings.of_group(classic.group_id)
    upgraded: tuple[GroupRecord, ...] = ()
    if classic.state is not ClassicGroupState.EMPTY:
        try:
            _check(classic, state.settings, settings)
            upgraded = tuple(_records(classic, state.context.image))
        except Refusal as refusal:
            return state.replied(ticket, refusal)
    group: ConsumerGroup | None = reduce(records.replay, upgraded, None)
    decision = decide_heartbeat(group, ticket, request, state.context, settings)
    if not decision.records:
        return state.with_consumer(decision)
    waiting = [*classic.joins.values(), *classic.syncs.values()]
    return ShardDecision(
        volatile=state.volatile.with_classic({classic.group_id: None}),
        records=(*group_tombstones(state.groups, classic.group_id), *upgraded, *decision.records),
        replies=(
            *(Reply(each, rebalance_in_progress(classic.group_id)) for each in sorted(waiting)),
            *decision.replies,
        ),
        timers={
            **_timers(classic),
            **decision.timers,
            **state.assignment_timer((*upgraded, *decision.records)),
        },
        events=decision.events,
    )


def _check(classic: ClassicGroup, of_shard: GroupShardSettings, settings: GroupSettings) -> None:
    if not of_shard.migration_policy.upgrades:
        raise _refused(classic, "group.consumer.migration.policy does not allow it to be upgraded")
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _refused(classic, "it is not a group of consumers")
    if len(classic.members) > settings.members_max:
        raise _refused(
            classic, f"it has more than {settings.members_max} members, the maximum of the consumer protocol"
        )
    if len(classic.members) > of_shard.converted_size_max:
        raise _refused(
            classic,
            f"it has more than {of_shard.converted_size_max} members: an empty group takes any protocol",
        )


def _refused(classic: ClassicGroup, why: str) -> Refusal:
    message = f"the classic group {classic.group_id!r} cannot take the consumer protocol: {why}"
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _records(classic: ClassicGroup, image: MetadataImage) -> Iterator[GroupRecord]:
    """Yield the records of the group of the consumer protocol, in Kafka's order."""
    group_id = classic.group_id
    members = _revoking([_member(classic, classic.members[each], image) for each in sorted(classic.members)])
    group = reduce(ConsumerGroup.with_member, members, ConsumerGroup(group_id=group_id))
    assignment_epoch = max(classic.generation, FIRST_EPOCH)
    epoch = assignment_epoch if classic.state is ClassicGroupState.STABLE else assignment_epoch + 1
    yield from (records.member_metadata(group_id, member) for member in members)
    yield records.group_epoch(group_id, epoch, group.metadata_hash_with(image))
    yield from (records.target_assignment(group_id, member.member_id, member.assigned) for member in members)
    yield records.assignment_epoch(group_id, assignment_epoch, 0)
    yield from (records.current_assignment(group_id, member) for member in members)


def _member(classic: ClassicGroup, member: ClassicGroupMember, image: MetadataImage) -> ConsumerGroupMember:
    """Return the member as the last generation has it; `pending_revocation` is what it said it owned before that."""
    # Before the first generation, no protocol is selected; the subscription is the same in all.
    metadata = member.metadata(classic.protocol) or member.protocols[0].metadata
    try:
        subscription = decode_subscription(metadata)
        assigned = _assigned(classic, member, image)
    except InvalidConsumerProtocol as error:
        raise _refused(classic, f"what member {member.member_id} sent is not readable: {error}") from error
    return ConsumerGroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicProtocols(session_timeout_ms=member.session_timeout_ms, offered=member.protocols),
        epoch=classic.generation,
        previous_epoch=classic.generation,
        assigned=assigned,
        pending_revocation=partitions_of(subscription.owned_partitions, image),
    )


def _revoking(members: list[ConsumerGroupMember]) -> list[ConsumerGroupMember]:
    """Return the members with what they own and are assigned.

    A cooperative member that has not seen its last assignment yet, or not acted on it, still reads what it owned
    before. What has not been assigned to another one must not be until it has given that up.
    """
    assigned = frozenset(partition for member in members for partition in member.assigned)
    return [_owning(member, member.pending_revocation - assigned) for member in members]


def _owning(member: ConsumerGroupMember, revoked: Partitions) -> ConsumerGroupMember:
    return replace(
        member,
        state=MemberState.UNREVOKED_PARTITIONS if revoked else MemberState.STABLE,
        pending_revocation=revoked,
        assignment_epochs=dict.fromkeys(member.assigned | revoked, member.epoch),
    )


def _assigned(classic: ClassicGroup, member: ClassicGroupMember, image: MetadataImage) -> Partitions:
    if not member.assignment:
        return NO_PARTITIONS
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise _refused(classic, "its assignor gives members data of its own, which would be lost")
    return partitions_of(assignment.assigned_partitions, image)


def _timers(classic: ClassicGroup) -> dict[TimerKey, int | None]:
    """Return the timers of the members' sessions in place of those of the classic group."""
    group_id = classic.group_id
    ended = [SessionTimer(group_id, each) for each in (*classic.members, *classic.pending_joins)]
    return {
        **dict.fromkeys((*ended, JoinTimer(group_id), SyncTimer(group_id))),
        **{SessionTimeout(group_id, each.member_id): each.session_timeout_ms for each in classic.members.values()},
    }
