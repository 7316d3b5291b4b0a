"""Requests to classic groups, and their responses. What an assignor reads stays bytes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kraft.model.errors import ErrorCode, Refusal


class OfferedProtocol(Struct, frozen=True):
    """An assignor that a member supports, and what the member says to it: for consumers, the subscription."""

    name: str
    metadata: bytes


class JoinGroup(Struct, frozen=True, kw_only=True):
    """Request to become a member of a group, or to stay one in its next generation."""

    group_id: str
    member_id: str = ""
    """Empty if the sender has none yet."""

    group_instance_id: str | None = None
    """Set by static members (KIP-345)."""

    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    """The session timeout, if this is not above 0."""

    protocol_type: str
    protocols: tuple[OfferedProtocol, ...]
    """In the order of preference."""

    reason: str = ""
    member_id_required: bool = True
    """A new member without an id is given one, to join with. False before version 4."""

    can_skip_assignment: bool = True
    """A leader without need to assign is an answer that the sender understands (KIP-814). False before version 9."""


class JoinedMember(Struct, frozen=True, kw_only=True):
    """A member as its group's leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinedGroup(Struct, frozen=True, kw_only=True):
    """Response to JoinGroup: the generation that the member belongs to. Only the leader gets the members."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class MemberIdRequired(Refusal):
    """Refusal of a JoinGroup without a member id; the member joins with the id given here."""

    def __init__(self, member_id: str) -> None:
        super().__init__(ErrorCode.MEMBER_ID_REQUIRED, "Join again with the member id of this response.")
        self.member_id = member_id


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


class GroupDeleted(Struct, frozen=True):
    """Response to the deletion of a group."""


class Committer(Struct, frozen=True, kw_only=True):
    """Sender of an OffsetCommit. Without a generation: an administrator, or a consumer that assigns itself."""

    member_id: str = ""
    group_instance_id: str | None = None
    generation: int = -1
    is_transactional: bool = False
