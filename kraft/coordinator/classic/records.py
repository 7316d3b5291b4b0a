"""The replicated part of a classic group: one record, written when a generation is complete or the group is empty."""

from __future__ import annotations

from msgspec.structs import replace

from kraft.coordinator.classic.group import (
    ClassicGroup,
    ClassicGroupMember,
    ClassicGroupState,
    add_member,
    effective_rebalance_timeout_ms,
)
from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kraft.wire.schema.join_group import JoinGroupRequestProtocol


def group_record(group: ClassicGroup) -> GroupRecord:
    """Return the record of a stable or empty group."""
    assert group.state in (ClassicGroupState.STABLE, ClassicGroupState.EMPTY)
    members = sorted(group.members.values(), key=lambda member: member.member_id)
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=tuple(_recorded(member, group.protocol) for member in members),
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value)


def tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(GroupMetadataKey(group=group_id), None)


def recorded_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Return the group as its last record has it. Of each member's protocols, only the selected one is recorded."""
    group = ClassicGroup(
        group_id=group_id,
        state_since_ms=value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        is_recorded=True,
    )
    instances: set[str] = set()
    for each in value.members:
        # Another program's record may have anything; of two equal ids the first one counts.
        if each.member_id not in group.members and each.group_instance_id not in instances:
            group = add_member(group, _member(each, value.protocol), value.protocol_type)
            instances.update(() if each.group_instance_id is None else (each.group_instance_id,))
    if not group.members:
        return group
    leader = value.leader if value.leader is None or value.leader in group.members else group.leader
    return replace(group, state=ClassicGroupState.STABLE, leader=leader, protocol=value.protocol or "")


def _recorded(member: ClassicGroupMember, protocol: str | None) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=member.assignment,
    )


def _member(recorded: MemberMetadata, protocol: str | None) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=recorded.member_id,
        group_instance_id=recorded.group_instance_id,
        client_id=recorded.client_id,
        client_host=recorded.client_host,
        rebalance_timeout_ms=effective_rebalance_timeout_ms(recorded.rebalance_timeout, recorded.session_timeout),
        session_timeout_ms=recorded.session_timeout,
        protocols=(JoinGroupRequestProtocol(name=protocol or "", metadata=bytes(recorded.subscription)),),
        assignment=bytes(recorded.assignment),
    )
