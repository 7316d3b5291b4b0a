"""DescribeGroups: groups as administrators see them."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode


class DescribeGroupsRequest(Struct, frozen=True, kw_only=True):
    """Request for the state and the members of groups of the classic protocol."""

    group_ids: tuple[str, ...]


class DescribedMember(Struct, frozen=True, kw_only=True):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    """Empty unless the group is stable."""

    assignment: bytes


class DescribedGroup(Struct, frozen=True, kw_only=True):
    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    """Empty unless the group is stable."""

    members: tuple[DescribedMember, ...] = ()


class DescribeGroupsResponse(Struct, frozen=True, kw_only=True):
    """Response to DescribeGroups, in the order of the request."""

    groups: tuple[DescribedGroup, ...]
