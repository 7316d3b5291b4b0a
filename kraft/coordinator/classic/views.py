"""Classic groups as ListGroups and DescribeGroups show them."""

from __future__ import annotations

from msgspec import Struct

from kraft.coordinator.classic.group import ClassicGroup, GroupState
from kraft.model.groups import DescribedMember


class ListedGroup(Struct, frozen=True, kw_only=True):
    group_id: str
    protocol_type: str
    state: GroupState


class DescribedGroup(Struct, frozen=True, kw_only=True):
    group_id: str
    state: GroupState
    protocol_type: str = ""
    protocol: str = ""
    """Empty unless the group is stable."""

    members: tuple[DescribedMember, ...] = ()


def listed(group: ClassicGroup) -> ListedGroup:
    return ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type or "", state=group.state)


def described(group_id: str, group: ClassicGroup | None) -> DescribedGroup:
    """Return the group for an administrator; a group that does not exist is dead."""
    if group is None:
        return DescribedGroup(group_id=group_id, state=GroupState.DEAD)
    protocol = group.protocol if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol=protocol or "",
        members=tuple(
            DescribedMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(protocol),
                assignment=member.assignment,
            )
            for member in sorted(group.members.values(), key=lambda each: each.member_id)
        ),
    )
