"""Requests and responses of the consumer group protocol, as values without a wire format."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kraft.coordinator.assignors.assignor import Partitions
from kraft.coordinator.assignors.by_name import ASSIGNORS
from kraft.coordinator.consumer.group import GroupState, Member

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


class Heartbeat(Struct, frozen=True, kw_only=True):
    """ConsumerGroupHeartbeat. What has not changed since the last one may be left out: it is None, or -1."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    """The partitions that the member owns now; left out, if they are those of its last heartbeat."""

    client_id: str = ""
    client_host: str = ""
    api_version: int = CLIENT_MEMBER_ID_VERSION

    @property
    def is_full(self) -> bool:
        """True if nothing that the member has to say is left out: it joins, or may have missed a response."""
        subscribes = self.topics is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


class HeartbeatResponse(Struct, frozen=True, kw_only=True):
    """`assignment` is None if the member knows it: it has not changed."""

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


class MemberDescription(Struct, frozen=True, kw_only=True):
    """A member, and the partitions it shall have in the end."""

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
