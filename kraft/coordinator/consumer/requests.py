"""Requests, responses, timers and settings of the consumer group protocol, as values without a wire format."""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct

from kraft.coordinator.assignors.assignor import Partitions
from kraft.coordinator.assignors.by_name import ASSIGNORS
from kraft.coordinator.consumer.group import GroupState, Member
from kraft.model.consumer_groups import MemberHeartbeat

CLIENT_MEMBER_ID_VERSION: Final = 1
"""From this version of ConsumerGroupHeartbeat on, the client generates the member id (KIP-1082)."""


class GroupSettings(Struct, frozen=True, kw_only=True):
    """Settings of a group."""

    heartbeat_interval_ms: int = 5_000
    """`group.consumer.heartbeat.interval.ms`, `consumer.heartbeat.interval.ms`"""

    session_timeout_ms: int = 45_000
    """`group.consumer.session.timeout.ms`, `consumer.session.timeout.ms`"""

    members_max: int = 2**31 - 1
    """`group.consumer.max.size`"""

    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    """`group.consumer.assignors`; the first is used where no member asks for one."""

    assignment_interval_ms: int = 1_000
    """`group.consumer.assignment.interval.ms`, `consumer.assignment.interval.ms`"""

    offloads_assignor: bool = True
    """`group.consumer.assignor.offload.enable`"""

    assigned_at_once_max: int = 1_000
    """Size, by `targets.assignment_size`, up to which an assignment is computed in the heartbeat that needs it. That
    takes milliseconds, and the response already has the member's part."""

    partitions_per_slice: int = 1_000
    """Size of a slice of a target assignment that was computed in a thread. A slice ends with the member that reaches
    it."""


class Heartbeat(MemberHeartbeat, frozen=True, kw_only=True):
    """ConsumerGroupHeartbeat, with what the broker knows about its sender."""

    topics: frozenset[str] | None = None
    owned: Partitions | None = None
    """The partitions that the member owns now; None if they are those of its last heartbeat."""

    client_host: str = ""
    api_version: int = CLIENT_MEMBER_ID_VERSION

    @property
    def is_full(self) -> bool:
        """True if nothing that the member has to say is left out: it joins, or may have missed a response."""
        subscribes = self.topics is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


class HeartbeatResponse(Struct, frozen=True, kw_only=True):
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

    member: Member
    target: Partitions


class GroupDescription(Struct, frozen=True, kw_only=True):
    """ConsumerGroupDescribe of one group; the members are in the order of their ids."""

    group_id: str
    state: GroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[MemberDescription, ...]
