"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: requests to groups of the classic protocol, and their responses.

What an assignor reads stays bytes. A refused request has no response: it ends with a Refusal.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kraft.model.errors import ErrorCode


class OfferedProtocol(Struct, frozen=True):
    """An assignor that a member supports, and what the member says to it: for consumers, the subscription."""

    name: str
    metadata: bytes


class JoinGroupRequest(Struct, frozen=True, kw_only=True):
    """Request to become a member of a group, or to stay one in its next generation."""

    group_id: str
    member_id: str = ""
    """Empty if the sender has none yet."""

    group_instance_id: str | None = None
    """Set by static members (KIP-345)."""

    client_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    """The session timeout, if this is not above 0."""

    protocol_type: str
    protocols: tuple[OfferedProtocol, ...]
    """In the order of preference."""

    reason: str = ""


class JoinedMember(Struct, frozen=True, kw_only=True):
    """A member as its group's leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinedGroup(Struct, frozen=True, kw_only=True):
    """Response to JoinGroup: the generation that the member belongs to. Only the leader gets the members."""

    error_code: ErrorCode = ErrorCode.NONE
    """NONE or MEMBER_ID_REQUIRED: the sender joins again with the member id of this response."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncGroup(Struct, frozen=True, kw_only=True):
    """Request for the own assignment; the leader's has the assignments of all members."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = {}


class SyncedGroup(Struct, frozen=True, kw_only=True):
    """Response to SyncGroup."""

    protocol_type: str | None
    protocol: str | None
    assignment: bytes


class Heartbeat(Struct, frozen=True, kw_only=True):
    """Sign of life of a member."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None


class HeartbeatAccepted(Struct, frozen=True):
    """Response to Heartbeat: the generation is current, and no rebalance is under way."""


class LeavingMember(Struct, frozen=True, kw_only=True):
    """A member to remove. An administrator names a static member by its instance id alone."""

    member_id: str = ""
    group_instance_id: str | None = None
    reason: str = ""


class LeaveGroup(Struct, frozen=True, kw_only=True):
    """Request to remove members from a group."""

    group_id: str
    members: tuple[LeavingMember, ...]


class LeftMember(Struct, frozen=True, kw_only=True):
    """Result for one member, named as in the request."""

    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode = ErrorCode.NONE


class LeftGroup(Struct, frozen=True):
    """Response to LeaveGroup."""

    members: tuple[LeftMember, ...]
