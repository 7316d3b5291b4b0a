"""What happens in groups of either protocol, for the node's log.

A rebalance begins when a group without one has something to assign again, and is complete when every member has what
it was assigned, or when there are no members any more. What changes meanwhile is part of it.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class MemberJoined(Struct, frozen=True, kw_only=True):
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str


class MemberGone(Struct, frozen=True, kw_only=True):
    group_id: str
    member_id: str
    instance_id: str | None
    reason: str
    has_left: bool
    """True if it, or an administrator, asked for it; False if it missed a deadline, or has no place in the group."""


class MemberAway(Struct, frozen=True, kw_only=True):
    """A static member has left, and keeps its assignment until its session ends."""

    group_id: str
    member_id: str
    instance_id: str | None


class MemberReplaced(Struct, frozen=True, kw_only=True):
    """A static member has come back under another member id. The old one is fenced."""

    group_id: str
    member_id: str
    instance_id: str | None
    replaced_id: str


class RebalanceStarted(Struct, frozen=True, kw_only=True):
    group_id: str
    epoch: int
    """The new epoch; of a classic group, the generation that ends."""

    is_classic: bool
    reason: str
    members: int
    is_restart: bool = False
    """True if the last rebalance has not been completed."""


class RebalanceCompleted(Struct, frozen=True, kw_only=True):
    group_id: str
    epoch: int
    """The epoch; of a classic group, its generation."""

    is_classic: bool
    members: int
    partitions: int | None
    """How many partitions the members are assigned; None where that is unknown or would take long to count."""


class OffsetsExpired(Struct, frozen=True, kw_only=True):
    """Committed offsets of a group have expired; perhaps the last that there was of it."""

    group_id: str
    offsets: int
    is_removed: bool
    """True if the group itself is removed: it has neither members nor offsets any more."""


class DeletedByClient(Struct, frozen=True, kw_only=True):
    """A client has deleted the group, with its committed offsets."""

    group_id: str


MemberEvent: TypeAlias = MemberJoined | MemberGone | MemberAway | MemberReplaced
RebalanceEvent: TypeAlias = MemberEvent | RebalanceStarted | RebalanceCompleted
GroupEvent: TypeAlias = RebalanceEvent | OffsetsExpired | DeletedByClient
