"""Records of consumer groups, and the groups that they replay into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from kraft.coordinator.assignors.assignor import NO_PARTITIONS, Partition, Partitions, by_topic
from kraft.coordinator.consumer.group import (
    FIRST_EPOCH,
    JOIN_EPOCH,
    ClassicProtocols,
    ConsumerGroup,
    ConsumerGroupMember,
    MemberState,
    ResolvedRegex,
)
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    OwnedTopic,
)
from kraft.model.ids import TopicId
from kraft.wire.schema.consumer_group_heartbeat import TopicPartitions
from kraft.wire.schema.join_group import JoinGroupRequestProtocol

_STATES: Final = {state.value: state for state in MemberState}
"""A state that only a newer version knows counts as unreleased partitions: the next heartbeat reconciles the member."""

# --- to records ------------------------------------------------------------------------------------------------------


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def member_metadata(group_id: str, member: ConsumerGroupMember) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(member.topics)),
            subscribed_topic_regex=member.topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=None if member.classic is None else _recorded(member.classic),
        ),
    )


def _recorded(classic: ClassicProtocols) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=tuple(ClassicProtocol(name=each.name, metadata=each.metadata) for each in classic.offered),
    )


def target_assignment(group_id: str, member_id: str, partitions: Partitions) -> GroupRecord:
    return target_assignment_of(group_id, member_id, target_assignment_value(partitions))


def target_assignment_of(group_id: str, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue) -> GroupRecord:
    return GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_assignment_value(partitions: Partitions) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            AssignedTopic(topic_id=topic_id, partitions=tuple(numbers))
            for topic_id, numbers in by_topic(partitions).items()
        )
    )


def assignment_epoch(group_id: str, epoch: int, now_ms: int) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms),
    )


def current_assignment(group_id: str, member: ConsumerGroupMember) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state.value,
            assigned_partitions=_owned_by_topic(member, member.assigned),
            partitions_pending_revocation=_owned_by_topic(member, member.pending_revocation),
        ),
    )


def resolved_regex(group_id: str, regex: str, resolved: ResolvedRegex) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=tuple(sorted(resolved.topics)), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def without_regex(group_id: str, regex: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def without_member(group_id: str, member_id: str) -> Iterator[GroupRecord]:
    yield GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    yield GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    yield GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def without_group(group: ConsumerGroup) -> Iterator[GroupRecord]:
    group_id = group.group_id
    member_ids = sorted(group.members)
    for member_id in member_ids:
        yield GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    for member_id in member_ids:
        yield GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    yield GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    for member_id in member_ids:
        yield GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)
    for regex in sorted(group.regexes):
        yield without_regex(group_id, regex)
    yield GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), None)


def _owned_by_topic(member: ConsumerGroupMember, partitions: Partitions) -> tuple[OwnedTopic, ...]:
    return tuple(
        OwnedTopic(
            topic_id=topic_id,
            partitions=tuple(numbers),
            assignment_epochs=tuple(member.assignment_epochs[topic_id, number] for number in numbers),
        )
        for topic_id, numbers in by_topic(partitions).items()
    )


# --- from records ----------------------------------------------------------------------------------------------------


def replay(group: ConsumerGroup | None, record: GroupRecord) -> ConsumerGroup | None:
    """Return the group after one of its records; None if it does not exist.

    Records of a member may come in any order, and some may be missing, in a log that was compacted.
    """
    key, value = record.key, record.value
    if value is not None:
        assert hasattr(key, "group_id"), f"{key} is not of a consumer group"
        return _set(group or ConsumerGroup(group_id=key.group_id), record)
    if group is None or isinstance(key, ConsumerGroupMetadataKey):
        return None
    return _deleted(group, record)


def _set(group: ConsumerGroup, record: GroupRecord) -> ConsumerGroup:
    match record.key, record.value:
        case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue() as value:
            return replace(group, epoch=value.epoch, metadata_hash=value.metadata_hash)
        case ConsumerGroupTargetAssignmentMetadataKey(), ConsumerGroupTargetAssignmentMetadataValue() as value:
            return replace(group, assignment_epoch=value.assignment_epoch, assignment_ms=value.assignment_timestamp)
        case ConsumerGroupTargetAssignmentMemberKey() as key, ConsumerGroupTargetAssignmentMemberValue() as value:
            target = partitions_of_topics(value.topic_partitions)
            return replace(group, targets=group.targets.with_changes({key.member_id: target}))
        case ConsumerGroupMemberMetadataKey() as key, ConsumerGroupMemberMetadataValue() as value:
            return group.with_member(_described(_member(group, key.member_id), value))
        case ConsumerGroupCurrentMemberAssignmentKey() as key, ConsumerGroupCurrentMemberAssignmentValue() as value:
            return group.with_member(_assigned(_member(group, key.member_id), value))
        case ConsumerGroupRegularExpressionKey() as key, ConsumerGroupRegularExpressionValue() as value:
            resolved = ResolvedRegex(
                topics=frozenset(value.topics), version=value.version, timestamp_ms=value.timestamp
            )
            return group.with_regex(key.regular_expression, resolved)
        case _:
            raise AssertionError(f"{record} is not of a consumer group")


def _deleted(group: ConsumerGroup, record: GroupRecord) -> ConsumerGroup:
    match record.key:
        case ConsumerGroupTargetAssignmentMetadataKey():
            return replace(group, assignment_epoch=FIRST_EPOCH, assignment_ms=0)
        case ConsumerGroupTargetAssignmentMemberKey() as key:
            return replace(group, targets=group.targets.with_changes({key.member_id: None}))
        case ConsumerGroupMemberMetadataKey() as key:
            return group.without_member(key.member_id)
        case ConsumerGroupCurrentMemberAssignmentKey() as key:
            return _unassigned(group, key.member_id)
        case ConsumerGroupRegularExpressionKey() as key:
            return group.with_regex(key.regular_expression, None)
        case _:
            raise AssertionError(f"{record} is not of a consumer group")


def _member(group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
    return group.members.get(member_id) or ConsumerGroupMember(member_id=member_id)


def _described(member: ConsumerGroupMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerGroupMember:
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None if value.classic_member_metadata is None else _classic(value.classic_member_metadata),
    )


def _classic(recorded: ClassicMemberMetadata) -> ClassicProtocols:
    return ClassicProtocols(
        session_timeout_ms=recorded.session_timeout_ms,
        offered=tuple(
            JoinGroupRequestProtocol(name=each.name, metadata=bytes(each.metadata))
            for each in recorded.supported_protocols
        ),
    )


def _assigned(member: ConsumerGroupMember, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerGroupMember:
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=_STATES.get(value.state, MemberState.UNRELEASED_PARTITIONS),
        assigned=partitions_of_topics(value.assigned_partitions),
        pending_revocation=partitions_of_topics(value.partitions_pending_revocation),
        assignment_epochs=_assignment_epochs(value),
    )


def _assignment_epochs(value: ConsumerGroupCurrentMemberAssignmentValue) -> dict[Partition, int]:
    """Return the epoch in which each partition was assigned; where it was not recorded, the member's."""
    epochs: dict[Partition, int] = {}
    for topic in (*value.assigned_partitions, *value.partitions_pending_revocation):
        recorded = topic.assignment_epochs or ()
        is_complete = len(recorded) == len(topic.partitions)
        for place, partition in enumerate(topic.partitions):
            epochs[TopicId(topic.topic_id), partition] = recorded[place] if is_complete else value.member_epoch
    return epochs


def _unassigned(group: ConsumerGroup, member_id: str) -> ConsumerGroup:
    member = group.members.get(member_id)
    if member is None:
        return group
    return group.with_member(
        replace(
            member,
            epoch=JOIN_EPOCH,
            previous_epoch=-1,
            state=MemberState.STABLE,
            assigned=NO_PARTITIONS,
            pending_revocation=NO_PARTITIONS,
            assignment_epochs={},
        )
    )


def partitions_of_topics(topics: Iterable[AssignedTopic | OwnedTopic | TopicPartitions]) -> Partitions:
    return frozenset((TopicId(topic.topic_id), partition) for topic in topics for partition in topic.partitions)
