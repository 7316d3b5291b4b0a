"""Requests of groups, for scenarios: each with what it needs, and defaults that a broker takes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kraft.wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.wire.schema.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.end_to_end.kafka.differences.peer import Peer

JOIN: Final = range(10)
SYNC: Final = range(6)
HEARTBEAT: Final = range(5)
LEAVE: Final = range(6)
COMMIT: Final = range(2, 11)
FETCH: Final = range(1, 11)

MEMBER_ID_FROM: Final = 4
"""JoinGroup gives a new member its id, and takes it with the next one."""

STATIC_FROM: Final = 5
LEAVE_MANY_FROM: Final = 3
FETCH_MANY_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10

LONGEST: Final = "g" * 32_767
"""The longest group id that old versions can send."""


def subscription(*topics: str) -> bytes:
    """What consumers send as their metadata, version 0. Kafka looks into it."""
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


RANGE: Final[Mapping[str, bytes]] = {"range": subscription("subscribed")}
_NONE: Final[Mapping[str, Any]] = {}

_RETENTION_MS: Final = 60_000
_RETENTION_UP_TO: Final = 4

MEMBER_ID_REQUIRED: Final = 79
REBALANCE_IN_PROGRESS: Final = 27
_NOT_READY: Final = (14, 15, 16)
_SESSION_MS: Final = 30_000


def wait_coordinated(peer: Peer, *groups: str) -> None:
    """The broker coordinates these groups."""
    for group in groups:
        found = FindCoordinatorRequest(coordinator_keys=(group,))
        peer.until(found, 4, lambda reply: reply.coordinators[0].error_code not in _NOT_READY)
        described = DescribeGroupsRequest(groups=(group,))
        peer.until(described, 0, lambda reply: reply.groups[0].error_code not in _NOT_READY)


# --- members ---------------------------------------------------------------------------------------------------------


def join(
    group: str,
    member_id: str = "",
    *,
    instance: str | None = None,
    kind: str = "consumer",
    protocols: Mapping[str, bytes] = RANGE,
    session_ms: int = _SESSION_MS,
    rebalance_ms: int = 60_000,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()),
        reason="a test",
    )


def sync(
    group: str,
    member_id: str,
    generation: int = 1,
    assigned: Mapping[str, bytes] = _NONE,
    *,
    instance: str | None = None,
    kind: str | None = None,
    protocol: str | None = None,
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=kind,
        protocol_name=protocol,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=data) for member_id, data in assigned.items()
        ),
    )


def heartbeat(group: str, member_id: str, generation: int = 1, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance)


def leave(group: str, *members: str | tuple[str, str], version: int = 5) -> LeaveGroupRequest:
    """Each is a member's id, or that with its instance id. Old versions take one id."""
    if version < LEAVE_MANY_FROM:
        (member_id,) = members
        assert isinstance(member_id, str)
        return LeaveGroupRequest(group_id=group, member_id=member_id)
    named = [(each, None) if isinstance(each, str) else each for each in members]
    return LeaveGroupRequest(
        group_id=group,
        members=tuple(MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in named),
    )


def joined(peer: Peer, group: str, **also: Any) -> str:
    """Id of a new member that leads a group of its own, which waits for the assignment of its first generation."""
    first = peer.call(join(group, **also), 5)
    if first.error_code == MEMBER_ID_REQUIRED:
        first = peer.call(join(group, first.member_id, **also), 5)
    assert (first.error_code, first.leader) == (0, first.member_id), first
    member_id: str = first.member_id
    return member_id


def stable(peer: Peer, group: str, **also: Any) -> str:
    """Id of the only member of a group with an assignment, in its first generation."""
    member_id = joined(peer, group, **also)
    answer = peer.call(sync(group, member_id, 1, {member_id: b"assignment"}, instance=also.get("instance")), 3)
    assert answer.error_code == 0, answer
    return member_id


def wait_rebalancing(peer: Peer, group: str, member_id: str, generation: int = 1) -> None:
    """The broker has got another one's request to join."""
    asked = heartbeat(group, member_id, generation)
    peer.until(asked, 3, lambda reply: reply.error_code == REBALANCE_IN_PROGRESS)


def consumer_heartbeat(group: str, member_id: str, epoch: int, **also: Any) -> ConsumerGroupHeartbeatRequest:
    """Of the newer protocol. `owned` has partitions by topic id; `topics` are what it subscribes to."""
    owned: Mapping[UUID, Sequence[int]] | None = also.pop("owned", None)
    if "topics" in also:
        also["subscribed_topic_names"] = also.pop("topics")
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        topic_partitions=None
        if owned is None
        else tuple(TopicPartitions(topic_id=topic, partitions=tuple(each)) for topic, each in owned.items()),
        **also,
    )


def first_heartbeat(
    group: str, member_id: str, topics: Sequence[str] | None, **also: Any
) -> ConsumerGroupHeartbeatRequest:
    """With it a member joins."""
    named = None if topics is None else tuple(topics)
    return consumer_heartbeat(
        group, member_id, 0, **({"topics": named, "rebalance_timeout_ms": 60_000, "owned": {}} | also)
    )


# --- offsets ---------------------------------------------------------------------------------------------------------


def commit(
    version: int,
    group: str,
    topic: str,
    topic_id: UUID = ZERO_UUID,
    offset: int = 5,
    *,
    partitions: Sequence[int] = (0,),
    metadata: str | None = "note",
    leader_epoch: int = -1,
    member: tuple[str, int] = ("", -1),
    instance: str | None = None,
) -> OffsetCommitRequest:
    by_id = version >= TOPIC_IDS_FROM
    places = tuple(
        OffsetCommitRequestPartition(
            partition_index=each,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        )
        for each in partitions
    )
    named = OffsetCommitRequestTopic(
        name="" if by_id else topic, topic_id=topic_id if by_id else ZERO_UUID, partitions=places
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member[1],
        member_id=member[0],
        group_instance_id=instance,
        retention_time_ms=_RETENTION_MS if version <= _RETENTION_UP_TO else -1,
        topics=(named,),
    )


def fetch_offsets(
    version: int,
    group: str,
    topics: Mapping[str, Sequence[int]] | None,
    topic_ids: Mapping[str, UUID] = _NONE,
    *,
    member: tuple[str | None, int] = (None, -1),
    require_stable: bool = False,
) -> OffsetFetchRequest:
    """Without topics: all that the group committed."""
    if version < FETCH_MANY_FROM:
        named = [OffsetFetchRequestTopic(name=name, partition_indexes=tuple(at)) for name, at in (topics or {}).items()]
        return OffsetFetchRequest(
            group_id=group, topics=None if topics is None else tuple(named), require_stable=require_stable
        )
    by_id = version >= TOPIC_IDS_FROM
    wanted = [
        OffsetFetchRequestTopics(
            name="" if by_id else name,
            topic_id=topic_ids.get(name, ZERO_UUID) if by_id else ZERO_UUID,
            partition_indexes=tuple(at),
        )
        for name, at in (topics or {}).items()
    ]
    one = OffsetFetchRequestGroup(
        group_id=group,
        member_id=member[0],
        member_epoch=member[1],
        topics=None if topics is None else tuple(wanted),
    )
    return OffsetFetchRequest(groups=(one,), require_stable=require_stable)
