"""Requests to classic groups that the model does not have, and their responses."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.classic_groups import (
    Heartbeat,
    HeartbeatAccepted,
    JoinedGroup,
    JoinedMember,
    JoinGroupRequest,
    LeaveGroup,
    LeavingMember,
    LeftGroup,
    LeftMember,
    OfferedProtocol,
    SyncedGroup,
    SyncGroup,
)
from kraft.model.errors import ErrorCode, Refusal

__all__ = [
    "GroupDeleted",
    "Heartbeat",
    "HeartbeatAccepted",
    "JoinGroup",
    "JoinedGroup",
    "JoinedMember",
    "LeaveGroup",
    "LeavingMember",
    "LeftGroup",
    "LeftMember",
    "MemberIdRequired",
    "OfferedProtocol",
    "SyncGroup",
    "SyncedGroup",
]


class JoinGroup(JoinGroupRequest, frozen=True, kw_only=True):
    """JoinGroupRequest, with what the broker knows about its sender."""

    client_host: str
    member_id_required: bool = True
    """A new member without an id is given one, to join with. False before version 4."""

    can_skip_assignment: bool = True
    """A leader without need to assign is an answer that the sender understands (KIP-814). False before version 9."""


class MemberIdRequired(Refusal):
    """Refusal of a JoinGroup without a member id; the member joins with the id given here."""

    def __init__(self, member_id: str) -> None:
        super().__init__(ErrorCode.MEMBER_ID_REQUIRED, "join again with the member id of this response")
        self.member_id = member_id


class GroupDeleted(Struct, frozen=True):
    """Response to the deletion of a group."""
