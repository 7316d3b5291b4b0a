"""Classic groups as DescribeGroups shows them."""

from __future__ import annotations

from kraft.coordinator.classic.group import ClassicGroup, ClassicGroupState
from kraft.model.errors import ErrorCode
from kraft.wire.schema.describe_groups import DescribedGroup, DescribedGroupMember


def described(group: ClassicGroup) -> DescribedGroup:
    """Return the group for an administrator, without protocol and metadata unless it is stable."""
    protocol = group.protocol if group.state is ClassicGroupState.STABLE else None
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol),
                member_assignment=member.assignment,
            )
            for member in sorted(group.members.values(), key=lambda each: each.member_id)
        ),
    )
