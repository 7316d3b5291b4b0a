"""Three brokers, of which one coordinates a group: what the others answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from kraft.wire.declaration import Message
from kraft.wire.schema.consumer_group_describe import ConsumerGroupDescribeRequest
from kraft.wire.schema.create_topics import CreateTopicsRequest
from kraft.wire.schema.delete_groups import DeleteGroupsRequest
from kraft.wire.schema.describe_groups import DescribeGroupsRequest
from kraft.wire.schema.find_coordinator import FindCoordinatorRequest
from kraft.wire.schema.list_groups import ListGroupsRequest
from kraft.wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.end_to_end.kafka.differences.group_requests import (
    COMMIT,
    FETCH,
    HEARTBEAT,
    JOIN,
    LEAVE,
    SYNC,
    commit,
    consumer_heartbeat,
    fetch_offsets,
    first_heartbeat,
    heartbeat,
    join,
    leave,
    sync,
    wait_coordinated,
)
from tests.end_to_end.kafka.differences.peer import TIMEOUT_MS, Peer
from tests.support.new_topic import new_topic

_GROUP: Final = "somewhere"
_TOPIC: Final = "anything"

_Ask = Callable[[str, Message, int], None]


def groups_of_other_brokers(peers: Mapping[int, Peer]) -> None:
    created = CreateTopicsRequest(topics=(new_topic(_TOPIC),), timeout_ms=TIMEOUT_MS)
    topic_id = peers[1].call(created, 7).topics[0].topic_id
    for peer in peers.values():
        peer.wait_known(_TOPIC)
    found = FindCoordinatorRequest(coordinator_keys=(_GROUP,))
    answer = peers[1].until(found, 4, lambda reply: reply.coordinators[0].node_id > 0)
    own_id = answer.coordinators[0].node_id
    wait_coordinated(peers[own_id], _GROUP)
    (other, *_) = (peer for node_id, peer in peers.items() if node_id != own_id)

    def ask(what: str, request: Message, version: int) -> None:
        other.ask(f"v{version} {what}", request, version)

    _ask_members(ask)
    _ask_offsets(ask, topic_id)
    _ask_tools(ask)
    peers[own_id].call(commit(8, _GROUP, _TOPIC), 8)
    for version in range(6):
        for who, peer in (("its coordinator", peers[own_id]), ("another", other)):
            peer.ask(f"v{version} list of {who}", ListGroupsRequest(), version, keep=_only_that)


def _ask_members(ask: _Ask) -> None:
    for version in JOIN:
        ask("join", join(_GROUP), version)
        ask("join of a member", join(_GROUP, "m-1"), version)
    for version in SYNC:
        ask("sync", sync(_GROUP, "m-1", kind="consumer", protocol="range"), version)
    for version in HEARTBEAT:
        ask("heartbeat", heartbeat(_GROUP, "m-1"), version)
    for version in LEAVE:
        ask("leave", leave(_GROUP, "m-1", version=version), version)
    for version in range(2):
        ask("first heartbeat", first_heartbeat(_GROUP, "m-1", [_TOPIC]), version)
        ask("another heartbeat", consumer_heartbeat(_GROUP, "m-1", 1), version)


def _ask_offsets(ask: _Ask, topic_id: UUID) -> None:
    for version in COMMIT:
        ask("commit", commit(version, _GROUP, _TOPIC, topic_id), version)
        ask("commit of a member", commit(version, _GROUP, _TOPIC, topic_id, member=("m-1", 1)), version)
    for version in FETCH:
        ids = {_TOPIC: topic_id}
        ask("fetch", fetch_offsets(version, _GROUP, {_TOPIC: (0,)}, ids), version)
        if version >= 2:
            ask("fetch all", fetch_offsets(version, _GROUP, None), version)
    partition = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name=_TOPIC, partitions=(partition,))
    ask("delete offsets", OffsetDeleteRequest(group_id=_GROUP, topics=(topic,)), 0)


def _ask_tools(ask: _Ask) -> None:
    for version in range(7):
        ask("describe", DescribeGroupsRequest(groups=(_GROUP,)), version)
    for version in range(3):
        ask("delete", DeleteGroupsRequest(groups_names=(_GROUP,)), version)
    for version in range(2):
        described = ConsumerGroupDescribeRequest(group_ids=(_GROUP,), include_authorized_operations=False)
        ask("describe one of the newer protocol", described, version)


def _only_that(answer: Any) -> Any:
    return [each for each in answer["groups"] if each["group_id"] == _GROUP]


SCENARIOS: Final = (groups_of_other_brokers,)
