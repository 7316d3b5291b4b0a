"""ListGroups, DescribeGroups, DeleteGroups: groups as administrators see them."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode


class ListGroupsRequest(Struct, frozen=True, kw_only=True):
    """Request for the groups that the broker coordinates; filters are Kafka's names, in any case."""

    states: tuple[str, ...] = ()
    """Only groups in one of these states; empty for all."""

    types: tuple[str, ...] = ()
    """Only groups of one of these types, `classic` and `consumer`; empty for all."""


class ListedGroup(Struct, frozen=True, kw_only=True):
    group_id: str
    protocol_type: str
    """Such as `consumer` or `connect`; empty for a group that has only committed offsets."""

    state: str
    type: str


class ListGroupsResponse(Struct, frozen=True, kw_only=True):
    groups: tuple[ListedGroup, ...]


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


class DeleteGroupsRequest(Struct, frozen=True, kw_only=True):
    """Request to delete groups without members, with their committed offsets."""

    group_ids: tuple[str, ...]


class GroupResult(Struct, frozen=True, kw_only=True):
    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


class DeleteGroupsResponse(Struct, frozen=True, kw_only=True):
    """Response to DeleteGroups, in the order of the request."""

    groups: tuple[GroupResult, ...]
