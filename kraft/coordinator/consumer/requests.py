"""Requests, responses and timers of the consumer group protocol, as values without a wire format."""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from kraft.coordinator.assignors.assignor import Partitions
from kraft.coordinator.consumer.group import ConsumerGroupMember, ConsumerGroupState

CLIENT_MEMBER_ID_VERSION: Final = 1
"""From this version of ConsumerGroupHeartbeat on, the client generates the member id (KIP-1082)."""


class ConsumerHeartbeat(Struct, frozen=True, kw_only=True):
    """ConsumerGroupHeartbeat, with what the broker knows about its sender. What has not changed since the member's last
    one may be left out: it is None, or -1.
    """

    group_id: str
    member_id: str
    member_epoch: int
    """0 to join, -1 to leave, -2 to leave as a static member that is expected back."""

    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    """The partitions that the member owns now."""

    client_id: str = ""
    client_host: str = ""
    api_version: int = CLIENT_MEMBER_ID_VERSION

    @property
    def is_full(self) -> bool:
        """True if nothing that the member has to say is left out: it joins, or may have missed a response."""
        subscribes = self.topics is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


class ConsumerHeartbeatResponse(Struct, frozen=True, kw_only=True):
    """Response to a heartbeat. `assignment` is None if it has not changed since the member got it."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


class SessionTimeout(Struct, frozen=True):
    """Timer of a member that has to send a heartbeat."""

    group_id: str
    member_id: str


class RebalanceTimeout(Struct, frozen=True):
    """Timer of a member that has to give up partitions, and then leaves this epoch."""

    group_id: str
    member_id: str
    member_epoch: int


class RejoinTimeout(Struct, frozen=True):
    """Timer of a classic member that has been asked to join again. It is not set again while it runs."""

    group_id: str
    member_id: str


class SyncTimeout(Struct, frozen=True):
    """Timer of a classic member that has joined, and has to ask for its assignment."""

    group_id: str
    member_id: str


class AssignmentTimer(Struct, frozen=True):
    """Timer of a group that is due: if it is large, a run begins to compute its target assignment."""

    group_id: str


class FailedRunTimer(Struct, frozen=True):
    """Timer of a group whose run has failed: the next run begins when it has ended."""

    group_id: str
    run_id: str


ConsumerTimer: TypeAlias = SessionTimeout | RebalanceTimeout | RejoinTimeout | SyncTimeout


class MemberDescription(Struct, frozen=True, kw_only=True):
    """A member, and its target assignment."""

    member: ConsumerGroupMember
    target: Partitions


class ConsumerGroupDescription(Struct, frozen=True, kw_only=True):
    """ConsumerGroupDescribe of one group; the members are in the order of their ids."""

    group_id: str
    state: ConsumerGroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[MemberDescription, ...]
