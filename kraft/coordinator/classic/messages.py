"""Requests to classic groups with what their messages do not say, and responses that Kafka does not have."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.request_context import RequestContext
from kraft.wire.schema.join_group import JoinGroupRequest

_MEMBER_ID_REQUIRED_FROM: Final = 4
"""First version of JoinGroup in which a new member is given an id to join with (KIP-394)."""

_SKIPS_ASSIGNMENT_FROM: Final = 9
"""First version of JoinGroup in which a leader can skip the assignment (KIP-814)."""


class JoinGroup(Struct, frozen=True):
    """JoinGroup, with its sender."""

    request: JoinGroupRequest
    client: RequestContext

    @property
    def group_id(self) -> str:
        return self.request.group_id

    @property
    def member_id_required(self) -> bool:
        """True if a new member without an id is given one, to join with."""
        return self.client.version >= _MEMBER_ID_REQUIRED_FROM

    @property
    def can_skip_assignment(self) -> bool:
        """True if a leader without need to assign is an answer that the sender understands."""
        return self.client.version >= _SKIPS_ASSIGNMENT_FROM


class MemberIdRequired(Refusal):
    """Refusal of a JoinGroup without a member id; the member joins with the id given here."""

    def __init__(self, member_id: str) -> None:
        super().__init__(ErrorCode.MEMBER_ID_REQUIRED, "join again with the member id of this response")
        self.member_id = member_id


class GroupDeleted(Struct, frozen=True):
    """Response to the deletion of a group."""
