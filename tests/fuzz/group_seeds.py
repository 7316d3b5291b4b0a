"""Conversations of well-behaved clients with the coordinator of groups, for the fuzzer to damage."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from kraft.wire.declaration import Message
from kraft.wire.frame import encode_request
from kraft.wire.schema import consumer_group_describe as describe_consumer
from kraft.wire.schema import consumer_group_heartbeat as beat
from kraft.wire.schema import delete_groups, describe_groups, heartbeat, leave_group, list_groups, offset_delete
from kraft.wire.schema import join_group as join
from kraft.wire.schema import offset_commit as commit
from kraft.wire.schema import offset_fetch as fetch
from kraft.wire.schema import sync_group as sync
from kraft.wire.schema import txn_offset_commit as transactional
from tests.support.client.fake_cluster import FakeCluster

_ORDERS_ID: Final = FakeCluster(1).topic_id("orders")

_MEMBER: Final = "client-0003"
_STATIC_MEMBER: Final = "static-0003"
"""Id of the first member that joins: the coordinator's random ids are numbers."""


@cache
def conversations() -> tuple[bytes, ...]:
    return (
        _sent(*_classic(0, 0), (heartbeat.HeartbeatRequest(group_id="g", generation_id=1, member_id=_MEMBER), 4)),
        _sent(*_classic(9, 5), (leave_group.LeaveGroupRequest(group_id="g", members=(_LEAVING,)), 5)),
        _sent(*_classic(3, 3), (_commit(7, _MEMBER, 1), 7), (_fetch(None), 8), (_COMMITTED_DELETED, 0)),
        _sent((_commit(10, "", -1), 10), (_fetch(()), 10), (delete_groups.DeleteGroupsRequest(groups_names=("g",)), 2)),
        _sent((_beat(0), 1), (_beat(1), 1), (_commit(9, "m", 1), 9), (_beat(-1), 1), (_beat(0), 0)),
        _sent((_beat(0), 1), (_DESCRIBED, 1), (list_groups.ListGroupsRequest(types_filter=("consumer",)), 5)),
        _sent(
            (_transactional(), 5), (_fetch(()), 10), (_COMMITTED_DELETED, 0), (_transactional(), 5), (_fetch(None), 8)
        ),
        _sent(*_classic(9, 5), (describe_groups.DescribeGroupsRequest(groups=("g", "none")), 6), *_classic(9, 5)),
    )


def _classic(join_version: int, sync_version: int) -> tuple[tuple[Message, int], ...]:
    """A join, of a static member if the version has such, and its sync."""
    is_static = join_version >= 5
    protocols = (join.JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\1\0\6orders\0\0\0\0"),)
    joining = join.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000 if join_version else -1,
        member_id="",
        group_instance_id="static" if is_static else None,
        protocol_type="consumer",
        protocols=protocols,
    )
    member_id = _STATIC_MEMBER if is_static else _MEMBER
    syncing = sync.SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer" if sync_version >= 5 else None,
        protocol_name="range" if sync_version >= 5 else None,
        assignments=(sync.SyncGroupRequestAssignment(member_id=member_id, assignment=b"\0\1\0\0\0\0\0\0\0\0"),),
    )
    return (joining, join_version), (syncing, sync_version)


def _beat(epoch: int) -> beat.ConsumerGroupHeartbeatRequest:
    is_joining = epoch == 0
    return beat.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout_ms=20_000 if is_joining else -1,
        subscribed_topic_names=("orders",) if is_joining else None,
        topic_partitions=() if is_joining else (beat.TopicPartitions(topic_id=_ORDERS_ID, partitions=(0, 1)),),
    )


def _commit(version: int, member_id: str, generation: int) -> commit.OffsetCommitRequest:
    partition = commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="note")
    names = {"topic_id": _ORDERS_ID} if version >= 10 else {"name": "orders"}
    topic: Any = commit.OffsetCommitRequestTopic
    return commit.OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=(topic(**names, partitions=(partition,)),),
    )


def _transactional() -> transactional.TxnOffsetCommitRequest:
    partition = transactional.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata="note"
    )
    return transactional.TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=7,
        producer_epoch=0,
        topics=(transactional.TxnOffsetCommitRequestTopic(name="orders", partitions=(partition,)),),
    )


def _fetch(topics: tuple[()] | None) -> fetch.OffsetFetchRequest:
    group = fetch.OffsetFetchRequestGroup(group_id="g", topics=topics)
    return fetch.OffsetFetchRequest(groups=(group,), require_stable=True)


_LEAVING: Final = leave_group.MemberIdentity(member_id="", group_instance_id="static")
_DESCRIBED: Final = describe_consumer.ConsumerGroupDescribeRequest(
    group_ids=("g", "none"), include_authorized_operations=True
)
_COMMITTED_DELETED: Final = offset_delete.OffsetDeleteRequest(
    group_id="g",
    topics=(
        offset_delete.OffsetDeleteRequestTopic(
            name="orders", partitions=(offset_delete.OffsetDeleteRequestPartition(partition_index=0),)
        ),
    ),
)


def _sent(*requests: tuple[Message, int]) -> bytes:
    return b"".join(b"".join(encode_request(request, version, 7, "client")) for request, version in requests)
