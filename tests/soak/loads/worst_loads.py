"""The loads whose consequences, not their requests, hold a broker's event loop the longest.

Groups of many members that end together, worst patterns, a deletion of a topic on which many groups have offsets,
offsets that expire together, and a coordinator that finds thousands of overdue transactions when it is loaded.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

import grpc

from kraft.client import Admin
from kraft.model.errors import ErrorCode
from kraft.model.find_coordinator import CoordinatorType
from kraft.rpc.group_calls import JOIN_GROUP
from kraft.rpc.peers import MESSAGE_BYTES_MAX
from kraft.testing import Cluster
from kraft.wire.api_keys import response_type
from kraft.wire.declaration import Message
from kraft.wire.frame import decode_response
from kraft.wire.schema.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from kraft.wire.schema.describe_transactions import DescribeTransactionsRequest
from kraft.wire.schema.init_producer_id import InitProducerIdRequest
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.wire.schema.leave_group import LeaveGroupRequest, MemberIdentity
from kraft.wire.schema.list_transactions import ListTransactionsRequest
from kraft.wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.soak.loads.largest_member import LargestMember
from tests.support.kafka.kafka_connection import Connection
from tests.support.kafka.single_requests import coordinator_id
from tests.support.waiting import until

SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "3000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "20000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "offsets.retention.check.interval.ms": "10000",
}
MEMBERS: Final = 20_000
LARGE_MEMBERS: Final = 100
METADATA_BYTES: Final = 1 << 20
SESSION_S: Final = 6.0
CONSUMER_SESSION_S: Final = 20.0
GROUPS: Final = 30_000
TRANSACTIONS: Final = 5_000
CAUGHT_UP_S: Final = 10.0
"""Time in which a node that was paused does everything that is due."""

PREPARE_S: Final = 120.0

TRANSACTION_TIMEOUT_S: Final = 15.0

DELETED: Final = "deleted"
_AT_ONCE: Final = 200
"""Requests that are sent before their answers are read."""

JOIN_WITHOUT_ID: Final = 3
_JOIN_STATIC, _LEAVE, _HEARTBEAT, _COMMIT = 5, 5, 1, 8
_COMMIT_WITH_RETENTION: Final = 4
_DESCRIBE_GROUPS, _DESCRIBE_TRANSACTIONS = 0, 0
_INIT_PRODUCER, _ADD_PARTITIONS, _LIST_TRANSACTIONS = 4, 3, 2
_PATTERN: Final = "(a|b)*a(a|b){600}"
_ID_LENGTH: Final = 32_000


def loads(cluster: Cluster) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield each load with its name, in an order in which none disturbs the next."""
    server = cluster.kafka_bootstrap_servers
    yield "groups: classic members join, and their connections close", partial(_join_and_close, server, "timeouts")
    yield "groups: the first rebalance of these", partial(_wait, 8.0)
    yield "groups: their sessions end together", partial(_pause, cluster, SESSION_S + 3)
    yield "groups: static members join", partial(_join_static, server)
    yield "groups: the first rebalance of the static members", partial(_wait, 8.0)
    yield "groups: all static members leave in one request", partial(_leave_static, server)
    yield "groups: consumer members join", partial(_join_consumers, server)
    yield "groups: their sessions end together (consumer)", partial(_pause, cluster, CONSUMER_SESSION_S + 3)
    yield "groups: members with large metadata join", partial(_join_with_metadata, server)
    yield "groups: members with large metadata join (gRPC)", partial(_join_with_metadata_by_grpc, cluster)
    yield from LargestMember(cluster, "many").loads()
    yield "patterns: ListTransactions", partial(_list_by_pattern, server)
    yield "offsets: many groups commit", partial(_commit, cluster, DELETED, _COMMIT)
    yield "offsets: the topic is deleted", partial(_delete_topic, cluster)
    yield "offsets: many groups commit for two seconds", partial(_commit, cluster, "expiring", _COMMIT_WITH_RETENTION)
    yield "offsets: they expire", partial(_wait, 15.0)
    yield "transactions: thousands begin", partial(_begin_transactions, cluster)
    yield "transactions: the coordinator is loaded when all are overdue", partial(_restart, cluster)


def prepare(server: str) -> None:
    """Have the topics of the coordinators created, and wait for these."""
    for kind in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
        until(partial(_has_coordinator, server, kind), f"no coordinator of {kind.name}", PREPARE_S)
    until(partial(_are_loaded, server), "coordinators not loaded", PREPARE_S)


def _has_coordinator(server: str, kind: CoordinatorType) -> bool:
    return coordinator_id(server, "classic", kind) is not None


def _are_loaded(server: str) -> bool:
    """Return True if ids of all kinds have a coordinator that answers: each topic has fifty of them."""
    names = tuple(f"group-{number}" for number in range(_AT_ONCE * 5))
    (groups,) = _exchange(server, [DescribeGroupsRequest(groups=names)], _DESCRIBE_GROUPS)
    (transactions,) = _exchange(server, [DescribeTransactionsRequest(transactional_ids=names)], _DESCRIBE_TRANSACTIONS)
    codes = {each.error_code for each in (*groups.groups, *transactions.transaction_states)}
    return codes.isdisjoint({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})


def _exchange(server: str, requests: Iterable[Message], version: int) -> list[Any]:
    """Send the requests over one connection; return the responses."""
    answers: list[Any] = []
    with Connection(server) as connection:
        batch: list[Message] = []
        for request in (*requests, None):
            if request is not None:
                batch.append(request)
            if len(batch) == _AT_ONCE or (request is None and batch):
                answers += _round_trip(connection, batch, version)
                batch = []
    return answers


def _round_trip(connection: Connection, batch: Sequence[Message], version: int) -> Iterator[Any]:
    for each in batch:
        connection.send(each, version)
    for each in batch:
        frame = connection.frame()
        assert frame is not None, "the node closed the connection"
        yield decode_response(response_type(type(each).message_key), version, memoryview(frame))[1]


def _codes(answers: Iterable[Any]) -> str:
    return _named(each.error_code for each in answers)


def _named(codes: Iterable[int]) -> str:
    counted = Counter(ErrorCode(each).name for each in codes)
    return ", ".join(f"{count:,} {name}" for name, count in counted.most_common())


def _wait(seconds: float) -> str:
    time.sleep(seconds)
    return f"{seconds:g} s"


def _pause(cluster: Cluster, seconds: float) -> str:
    """Pause the node until everything that has a deadline meanwhile is due at once."""
    cluster.node(1).pause()
    time.sleep(seconds)
    cluster.node(1).resume()
    time.sleep(CAUGHT_UP_S)
    return f"paused for {seconds:g} s"


# --- groups ----------------------------------------------------------------------------------------------------------


def join(group_id: str, instance_id: str | None = None, metadata: bytes = bytes(30)) -> JoinGroupRequest:
    """Return the request of a new member, for any assignor."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=int(SESSION_S * 1_000),
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
    )


def _join_and_close(server: str, group_id: str) -> str:
    for _ in range(MEMBERS):
        with Connection(server) as connection:
            connection.send(join(group_id), JOIN_WITHOUT_ID)
    return f"{MEMBERS:,} members"


def _join_static(server: str) -> str:
    for number in range(MEMBERS):
        with Connection(server) as connection:
            connection.send(join("static", f"instance-{number}"), _JOIN_STATIC)
    return f"{MEMBERS:,} members"


def _join_with_metadata(server: str) -> str:
    """The leader's response has the metadata of all members."""
    with ExitStack() as connections:
        members = [connections.enter_context(Connection(server)) for _ in range(LARGE_MEMBERS)]
        for member in members:
            member.socket.settimeout(PREPARE_S)
            member.send(join("large", metadata=bytes(METADATA_BYTES)), JOIN_WITHOUT_ID)
        frames = [member.frame() for member in members]
        return f"{sum(frame is not None and len(frame) > METADATA_BYTES for frame in frames)} long responses"


def _join_with_metadata_by_grpc(cluster: Cluster) -> str:
    options = [("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)]
    with grpc.insecure_channel(cluster.bootstrap_servers, options) as channel:
        send: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(JOIN_GROUP.method)
        requests = (join("large-grpc", f"instance-{each}", bytes(METADATA_BYTES)) for each in range(LARGE_MEMBERS))
        encoded = [JOIN_GROUP.request.serialize(JOIN_GROUP.request.to_message(each)) for each in requests]
        calls = [send.future(each, timeout=PREPARE_S) for each in encoded]
        sizes = [len(each.result()) for each in calls if each.exception() is None]
    return f"{sum(size > METADATA_BYTES for size in sizes)} long responses of {len(sizes)}"


def _leave_static(server: str) -> str:
    names = (MemberIdentity(member_id="", group_instance_id=f"instance-{each}") for each in range(16_000))
    (answer,) = _exchange(server, [LeaveGroupRequest(group_id="static", members=tuple(names))], _LEAVE)
    return _codes(answer.members)


def _join_consumers(server: str) -> str:
    return _codes(
        _exchange(
            server,
            (
                ConsumerGroupHeartbeatRequest(
                    group_id="consumers",
                    member_id=str(UUID(int=number + 1)),
                    member_epoch=0,
                    rebalance_timeout_ms=60_000,
                    subscribed_topic_names=("many",),
                    topic_partitions=(),
                )
                for number in range(MEMBERS)
            ),
            _HEARTBEAT,
        )
    )


# --- patterns --------------------------------------------------------------------------------------------------------


def _list_by_pattern(server: str) -> str:
    return _codes(_exchange(server, [list_by_pattern(server)], _LIST_TRANSACTIONS))


def list_by_pattern(server: str) -> ListTransactionsRequest:
    """Create the transactional id that is the hardest for a pattern; return a request with this pattern."""
    # In an id without a pattern of its own, nearly every character leads to states that were not seen before.
    transactional_id = "".join(Random(_ID_LENGTH).choices("ab", k=_ID_LENGTH))
    _exchange(
        server,
        [InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)],
        _INIT_PRODUCER,
    )
    return ListTransactionsRequest(state_filters=(), producer_id_filters=(), transactional_id_pattern=_PATTERN)


# --- offsets ---------------------------------------------------------------------------------------------------------


def _commit(cluster: Cluster, topic: str, version: int) -> str:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.create_topic(topic, 1, 1)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = (OffsetCommitRequestTopic(name=topic, partitions=(partition,)),)
    answers = _exchange(
        cluster.kafka_bootstrap_servers,
        (
            OffsetCommitRequest(group_id=f"{topic}-{number}", member_id="", retention_time_ms=2_000, topics=topics)
            for number in range(GROUPS)
        ),
        version,
    )
    return _codes(each.topics[0].partitions[0] for each in answers)


def _delete_topic(cluster: Cluster) -> str:
    with Admin(cluster.bootstrap_servers) as admin:
        admin.delete_topics([DELETED])
    return _wait(5.0)


# --- transactions ----------------------------------------------------------------------------------------------------


def _begin_transactions(cluster: Cluster) -> str:
    server = cluster.kafka_bootstrap_servers
    ids = [f"transaction-{number}" for number in range(TRANSACTIONS)]
    timeout_ms = int(TRANSACTION_TIMEOUT_S * 1_000)
    producers = _exchange(
        server,
        (InitProducerIdRequest(transactional_id=each, transaction_timeout_ms=timeout_ms) for each in ids),
        _INIT_PRODUCER,
    )
    added = _exchange(
        server,
        (
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=each,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=(AddPartitionsToTxnTopic(name="many", partitions=(number % 200,)),),
            )
            for number, (each, producer) in enumerate(zip(ids, producers, strict=True))
        ),
        _ADD_PARTITIONS,
    )
    return _named(
        partition.partition_error_code
        for each in added
        for topic in each.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    )


def _restart(cluster: Cluster) -> str:
    cluster.node(1).kill()
    time.sleep(TRANSACTION_TIMEOUT_S)
    cluster.start()
    cluster.wait_ready()
    return _wait(10.0)
