"""Requests about groups that no client should send: each gets Kafka's error code, and the groups stay as they were."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kraft.client import Admin, OffsetAndMetadata, TopicPartition
from kraft.model.errors import ErrorCode
from kraft.testing import Cluster
from kraft.wire.api_keys import ApiKey, response_type
from kraft.wire.declaration import Message
from kraft.wire.frame import decode_response
from kraft.wire.schema.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kraft.wire.schema.heartbeat import HeartbeatRequest
from kraft.wire.schema.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kraft.wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.wire.schema.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.kafka.kafka_connection import Connection

SESSION_MS = 1_800_000
"""The longest that is allowed: no session ends during a test."""

JOINS = 4_000
AT_ONCE = 500
MEMBER_BYTES_MAX = 4_096
"""Far above what an id takes that was given out for a member, and far below what would be bad for a broker."""

LONGEST_TEXT = 2**15 - 1
FIELDS: dict[type[Message], dict[str, Any]] = {
    JoinGroupRequest: {
        "session_timeout_ms": SESSION_MS,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=b"topics"),),
    },
    SyncGroupRequest: {"protocol_type": "consumer", "protocol_name": "range", "assignments": ()},
    HeartbeatRequest: {},
    OffsetCommitRequest: {},
    ConsumerGroupHeartbeatRequest: {},
}
VERSIONS = {
    JoinGroupRequest: 9,
    SyncGroupRequest: 5,
    HeartbeatRequest: 4,
    OffsetCommitRequest: 9,
    ConsumerGroupHeartbeatRequest: 1,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1, overrides={"group.initial.rebalance.delay.ms": "0"}) as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topic("orders", 1, 1)
            # Offsets are committed where there is a coordinator, which the first look-up creates.
            admin.alter_consumer_group_offsets("first", {TopicPartition("orders", 0): 0})
        yield running


@pytest.fixture
def broker(cluster: Cluster) -> Iterator[Connection]:
    with Connection(cluster.kafka_bootstrap_servers) as connection:
        yield connection


def ask(broker: Connection, kind: type[Message], group: str, **fields: Any) -> Any:
    version = VERSIONS[kind]
    broker.send(kind(**{"group_id": group, **FIELDS[kind], **fields}), version)
    return answer(broker, kind)


def answer(broker: Connection, kind: type[Message]) -> Any:
    frame = broker.frame()
    assert frame is not None, "the connection was closed"
    _, response = decode_response(response_type(ApiKey(kind.message_key)), VERSIONS[kind], memoryview(frame))
    return response


def committing(offset: int, metadata: str = "", topic: str = "orders") -> tuple[OffsetCommitRequestTopic, ...]:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
    return (OffsetCommitRequestTopic(name=topic, partitions=(partition,)),)


def code(response: Any) -> int:
    """Return the error code, of the only partition if the response has none of its own."""
    if hasattr(response, "error_code"):
        return int(response.error_code)
    return int(response.topics[0].partitions[0].error_code)


def stable_member(broker: Connection, group: str, instance_id: str = "static") -> dict[str, Any]:
    """Bring a group with one static member to its first generation; return what identifies the member."""
    joined = ask(broker, JoinGroupRequest, group, group_instance_id=instance_id)
    assert (code(joined), joined.generation_id) == (0, 1)
    member = {"member_id": joined.member_id, "group_instance_id": instance_id, "generation_id": 1}
    assigned = (SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all"),)
    assert ask(broker, SyncGroupRequest, group, **{**member, "assignments": assigned}).assignment == b"all"
    return member


def test_bad_requests_change_nothing_in_a_classic_group(cluster: Cluster, broker: Connection) -> None:
    member = stable_member(broker, "classic")
    static = {"member_id": member["member_id"], "group_instance_id": "static"}
    good = {**static, "generation_id_or_member_epoch": 1}
    assert code(ask(broker, OffsetCommitRequest, "classic", topics=committing(5), **good)) == 0
    refused: list[tuple[type[Message], dict[str, Any], ErrorCode]] = [
        (HeartbeatRequest, {**member, "generation_id": 9}, ErrorCode.ILLEGAL_GENERATION),
        (HeartbeatRequest, {"member_id": "m", "generation_id": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest, {**member, "member_id": "m"}, ErrorCode.FENCED_INSTANCE_ID),
        (SyncGroupRequest, {**member, "generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        (SyncGroupRequest, {**member, "protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (JoinGroupRequest, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (JoinGroupRequest, {"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        (JoinGroupRequest, {"member_id": "never given out"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (OffsetCommitRequest, {**good, "member_id": "m", "topics": committing(6)}, ErrorCode.FENCED_INSTANCE_ID),
        (
            OffsetCommitRequest,
            {**static, "generation_id_or_member_epoch": 0, "topics": committing(6)},
            ErrorCode.ILLEGAL_GENERATION,
        ),
        (OffsetCommitRequest, {**good, "topics": committing(6, "x" * 5_000)}, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (
            OffsetCommitRequest,
            {**good, "topics": committing(6, topic="nowhere")},
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (OffsetCommitRequest, {"member_id": "", "topics": committing(6)}, ErrorCode.UNKNOWN_MEMBER_ID),
        (
            ConsumerGroupHeartbeatRequest,
            {
                "member_id": "m",
                "member_epoch": 0,
                "rebalance_timeout_ms": 1_000,
                "subscribed_topic_names": ("orders",),
                "topic_partitions": (),
            },
            ErrorCode.GROUP_ID_NOT_FOUND,
        ),
    ]
    for kind, fields, expected in refused:
        assert code(ask(broker, kind, "classic", **fields)) == expected, (kind.__name__, fields)
    assert code(ask(broker, HeartbeatRequest, "classic", **member)) == 0
    with Admin(cluster.bootstrap_servers) as admin:
        assert admin.list_consumer_group_offsets("classic") == {TopicPartition("orders", 0): OffsetAndMetadata(5)}


def test_bad_requests_change_nothing_in_a_consumer_group(cluster: Cluster, broker: Connection) -> None:
    joining: dict[str, Any] = {
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ("orders",),
        "topic_partitions": (),
    }
    joined = ask(broker, ConsumerGroupHeartbeatRequest, "consumer", **joining)
    assert code(joined) == 0
    epoch = joined.member_epoch
    refused: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"member_id": "m", "member_epoch": epoch + 7}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"member_id": "n", "member_epoch": epoch}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "member_epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({**joining, "member_id": "n", "server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({**joining, "member_id": "n", "subscribed_topic_regex": "(" * 99}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({**joining, "member_id": "n" * LONGEST_TEXT}, ErrorCode.INVALID_REQUEST),
    ]
    for fields, expected in refused:
        assert code(ask(broker, ConsumerGroupHeartbeatRequest, "consumer", **fields)) == expected, fields
    stale = {"member_id": "m", "generation_id_or_member_epoch": epoch + 1, "topics": committing(6)}
    assert code(ask(broker, OffsetCommitRequest, "consumer", **stale)) == ErrorCode.STALE_MEMBER_EPOCH
    going_on = ask(broker, ConsumerGroupHeartbeatRequest, "consumer", member_id="m", member_epoch=epoch)
    assert (code(going_on), going_on.member_epoch) == (0, epoch)
    with Admin(cluster.bootstrap_servers) as admin:
        assert admin.list_consumer_group_offsets("consumer") == {}


def test_a_group_may_have_the_longest_id_that_the_protocol_has_and_no_longer_one(
    cluster: Cluster, broker: Connection
) -> None:
    longest = "g" * LONGEST_TEXT
    member = stable_member(broker, longest)
    committed = {"member_id": member["member_id"], "group_instance_id": "static", "generation_id_or_member_epoch": 1}
    assert code(ask(broker, OffsetCommitRequest, longest, topics=committing(5), **committed)) == 0
    with Admin(cluster.bootstrap_servers) as admin:
        assert longest in [each.group_id for each in admin.list_groups()]
    for refused in ("", "g" * 100):
        assert code(ask(broker, HeartbeatRequest, refused, **member)) == (
            ErrorCode.UNKNOWN_MEMBER_ID if refused else ErrorCode.INVALID_GROUP_ID
        )
    broker.send(HeartbeatRequest(group_id=longest + "g", generation_id=1, member_id="m"), VERSIONS[HeartbeatRequest])
    assert broker.frame() is None, "no text of the protocol is that long"


@pytest.mark.timeout(600)
def test_joins_without_end_take_little_memory_and_disturb_no_other_group(cluster: Cluster, broker: Connection) -> None:
    node = cluster.node(1)
    member = stable_member(broker, "undisturbed")
    before = node.resident_bytes()
    given: set[str] = set()
    for _ in range(JOINS // AT_ONCE):
        for _ in range(AT_ONCE):
            broker.send(JoinGroupRequest(group_id="flooded", **FIELDS[JoinGroupRequest]), VERSIONS[JoinGroupRequest])
        for _ in range(AT_ONCE):
            response = answer(broker, JoinGroupRequest)
            assert code(response) == ErrorCode.MEMBER_ID_REQUIRED
            given.add(response.member_id)
    assert len(given) == JOINS
    assert node.resident_bytes() - before < JOINS * MEMBER_BYTES_MAX
    assert code(ask(broker, HeartbeatRequest, "undisturbed", **member)) == 0
    with Admin(cluster.bootstrap_servers) as admin:
        listed = {each.group_id: each.state for each in admin.list_groups()}
    assert listed["undisturbed"] == "Stable"
