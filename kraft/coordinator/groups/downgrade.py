"""Downgrade: a group becomes classic when its last member of the consumer protocol leaves.

The group's epoch becomes the generation, and its members rebalance; unless a static member has been replaced by a
classic one, and every member owns its target. A group of more than `converted_size_max` stays as it is.

Source: `convertToClassicGroup` in Kafka's `GroupMetadataManager`, and KIP-848. Unlike in Kafka, members are assigned
what they own, not their targets, which others may not have given up; and the group rebalances if the two differ.
"""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.classic.draft import ClassicDraft
from kraft.coordinator.classic.group import (
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
    add_member,
    select_protocol,
)
from kraft.coordinator.classic.rebalance import prepare
from kraft.coordinator.consumer import records
from kraft.coordinator.consumer.draft import ConsumerDraft, ConsumerGroupDecision
from kraft.coordinator.consumer.group import ConsumerGroup, ConsumerGroupMember, ConsumerGroupState
from kraft.coordinator.consumer_protocol import encode_assignment
from kraft.coordinator.group_events import MemberEvent
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import ConsumerGroupMemberMetadataKey
from kraft.coordinator.groups.settings import GroupShardSettings
from kraft.coordinator.groups.state import GroupsState
from kraft.coordinator.groups.volatile import GroupsDecision
from kraft.coordinator.offsets.group_facts import CONSUMER_PROTOCOL_TYPE
from kraft.coordinator.shard import DecisionContext, ShardDecision
from kraft.metadata.persistent_maps import PersistentMap


def or_downgraded(state: GroupsState, before: ConsumerGroup | None, decision: ConsumerGroupDecision) -> GroupsDecision:
    """Return a decision on one group of the consumer protocol as one of the shard; it may make the group classic."""
    if before is None or not any(map(_removes_member, decision.records)):
        return state.with_consumer(decision)
    after = before
    for record in decision.records:
        replayed = records.replay(after, record)
        assert replayed is not None, f"{before.group_id} is deleted while it has members"
        after = replayed
    if not _is_to_be_classic(after, state.settings):
        return state.with_consumer(decision)
    return _downgraded(state, before, after, decision)


def _removes_member(record: GroupRecord) -> bool:
    return record.value is None and isinstance(record.key, ConsumerGroupMemberMetadataKey)


def _is_to_be_classic(group: ConsumerGroup, settings: GroupShardSettings) -> bool:
    count = len(group.members)
    return (
        settings.migration_policy.downgrades
        and count == group.classic_members
        and 0 < count <= min(settings.classic.size_max, settings.converted_size_max)
        and count in group.classic_supporters.values()
    )


def _downgraded(
    state: GroupsState, before: ConsumerGroup, after: ConsumerGroup, decision: ConsumerGroupDecision
) -> GroupsDecision:
    """Return the decision with the records of the classic group instead of its own."""
    ended = ConsumerDraft(after)
    for member in after.members.values():
        ended.stop_timers(member)
    timers = {**decision.timers, **ended.decision().timers}
    own = state.with_consumer(replace(decision, records=(), timers=timers))
    has_to_rebalance = after.epoch != before.epoch or after.state is not ConsumerGroupState.STABLE
    group = _classic(before, after, state.context)
    # Without a leader in the record, another coordinator that loads it begins the rebalance, too.
    unled = replace(group, leader=None) if has_to_rebalance else group
    classic = ClassicDraft(unled, state.settings.classic, state.context)
    classic.write_group()
    for each in group.members.values():
        classic.start_session(each)
    if has_to_rebalance:
        prepare(classic, "the last member of the consumer protocol has gone")
    begun = classic.decision()
    return ShardDecision(
        volatile=own.volatile.with_classic({before.group_id: begun.volatile}),
        records=(*records.without_group(before), *begun.records),
        replies=own.replies,
        timers={**own.timers, **begun.timers},
        events=(*(each for each in decision.events if isinstance(each, MemberEvent)), *begun.events),
    )


def _classic(before: ConsumerGroup, after: ConsumerGroup, context: DecisionContext) -> ClassicGroup:
    group = ClassicGroup(
        group_id=before.group_id, state=ClassicGroupState.STABLE, state_since_ms=context.now_ms, generation=before.epoch
    )
    for member_id in sorted(after.members):
        member = after.members[member_id]
        # Another program's records may have two members with one instance id; only one of them is the static member.
        if member.instance_id is None or after.instances.get(member.instance_id) == member_id:
            group = add_member(group, _member(member), CONSUMER_PROTOCOL_TYPE)
    protocol = select_protocol(group)
    assigned = {
        member.member_id: replace(
            member,
            assignment=encode_assignment(
                after.members[member.member_id].owned, context.image, member.metadata(protocol)
            ),
        )
        for member in group.members.values()
    }
    return replace(group, protocol=protocol, members=PersistentMap(assigned))


def _member(member: ConsumerGroupMember) -> ClassicGroupMember:
    assert member.classic is not None, f"{member.member_id} uses the consumer protocol"
    return ClassicGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.offered,
    )
