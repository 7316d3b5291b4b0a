"""Responses of three brokers about a partition, before and after a change of its leader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.wire.schema.create_topics import CreateTopicsRequest
from kraft.wire.schema.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kraft.wire.schema.describe_producers import DescribeProducersRequest, TopicRequest
from kraft.wire.schema.elect_leaders import ElectLeadersRequest, TopicPartitions
from kraft.wire.schema.fetch import FetchRequest
from kraft.wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from kraft.wire.schema.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kraft.wire.schema.produce import ProduceRequest
from tests.end_to_end.kafka.differences.batches import batch
from tests.end_to_end.kafka.differences.fetch_scenarios import fetch, wanted
from tests.end_to_end.kafka.differences.peer import TIMEOUT_MS, Peer
from tests.end_to_end.kafka.differences.produce_scenarios import produce
from tests.support.new_topic import new_topic

Peers = Mapping[int, Peer]
"""The connections by node id; they share labels and numbers of ids."""

_TOPIC: Final = "led"
_FETCH_VERSIONS: Final = (4, 9, 11, 12, 13, 15, 16, 18)
_PRODUCE_VERSIONS: Final = (3, 9, 10, 12, 13)


def another_leads(peers: Peers) -> None:
    """The topic is led by node 1 in epoch 0, then by node 2 in epoch 1."""
    topic = new_topic(_TOPIC, -1, -1, assignments={0: (1, 2, 3)})
    (created,) = peers[1].call(CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS), 7).topics
    assert created.error_code == 0, created
    _wait_known(peers, leader=1)
    peers[1].call(produce(13, _TOPIC, created.topic_id, batch("a", "b")), 13)
    _tell(peers, "follower", 3, created.topic_id)
    _let_lead(peers, 2)
    _wait_known(peers, leader=2)
    for node_id, what in ((1, "the former leader"), (2, "the new leader"), (3, "the other follower")):
        _tell(peers, what, node_id, created.topic_id)


def _let_lead(peers: Peers, leader: int) -> None:
    replicas = (leader, *(node_id for node_id in peers if node_id != leader))
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    moved = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS, topics=(ReassignableTopic(name=_TOPIC, partitions=(partition,)),)
    )
    peers[1].ask("replicas in another order", moved, 1)
    elect = ElectLeadersRequest(
        topic_partitions=(TopicPartitions(topic=_TOPIC, partitions=(0,)),), timeout_ms=TIMEOUT_MS
    )
    peers[1].ask("the first of them leads", elect, 2)


def _wait_known(peers: Peers, leader: int) -> None:
    """All of them know of it, and that one acts on it."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=_TOPIC),), allow_auto_topic_creation=False)
    for peer in peers.values():
        peer.until(request, 12, lambda reply: any(each.leader_id == leader for each in reply.topics[0].partitions))
    peers[leader].wait_led(_TOPIC)


def _tell(peers: Peers, what: str, node_id: int, topic_id: Any) -> None:
    peer = peers[node_id]
    for version in _PRODUCE_VERSIONS:
        request: ProduceRequest | FetchRequest = produce(version, _TOPIC, topic_id, batch("c"), acks=1)
        peer.ask(f"v{version} produce to {what}", request, version, keep=_whatever_offset)
    for version in _FETCH_VERSIONS:
        for epoch in (-1, 0, 1, 9):
            request = fetch(version, _TOPIC, topic_id, [wanted(epoch=epoch)])
            peer.ask(f"v{version} fetch from {what}, epoch {epoch}", request, version, keep=_whatever_is_there)
    session = fetch(18, _TOPIC, topic_id, [wanted()], session=(0, 0))
    peer.ask(f"session with {what}", session, 18, keep=_whatever_is_there)
    _tell_of_places(peer, what)


def _tell_of_places(peer: Peer, what: str) -> None:
    for epoch in (-1, 0, 1, 9):
        place = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-2)
        offsets = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=_TOPIC, partitions=(place,)),))
        for version in (1, 7, 11):
            peer.ask(f"v{version} offsets of {what}, epoch {epoch}", offsets, version)
        ended = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
        ends = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=(OffsetForLeaderTopic(topic=_TOPIC, partitions=(ended,)),)
        )
        peer.ask(f"end of epoch 0 by {what}, epoch {epoch}", ends, 4, keep=_whatever_end)
    producers = DescribeProducersRequest(topics=(TopicRequest(name=_TOPIC, partition_indexes=(0,)),))
    peer.ask(f"producers of {what}", producers, 0)
    deleted = DeleteRecordsTopic(name=_TOPIC, partitions=(DeleteRecordsPartition(partition_index=0, offset=0),))
    peer.ask(f"records deleted by {what}", DeleteRecordsRequest(topics=(deleted,), timeout_ms=TIMEOUT_MS), 2)
    request = MetadataRequest(topics=(MetadataRequestTopic(name=_TOPIC),))
    peer.ask(f"metadata of {what}", request, 12, keep=_without_controller)


def _whatever_offset(answer: Any) -> Any:
    for partition in answer["responses"][0]["partition_responses"]:
        if partition["base_offset"] >= 0:
            partition["base_offset"] = "<offset>"
    return answer


def _whatever_is_there(answer: Any) -> Any:
    """Remove what depends on timing: how much of the last write is committed."""
    for topic in answer["responses"]:
        for partition in topic["partitions"]:
            for field in ("high_watermark", "last_stable_offset"):
                if partition.get(field, -1) >= 0:
                    partition[field] = "<offset>"
            partition["records"] = "<records>" if partition["records"] else []
    return answer


def _whatever_end(answer: Any) -> Any:
    (partition,) = answer["topics"][0]["partitions"]
    if partition.get("end_offset", -1) >= 0:
        partition["end_offset"] = "<offset>"
    return answer


def _without_controller(answer: Any) -> Any:
    answer["controller_id"] = "<controller>" if answer.get("controller_id", -1) > 0 else None
    for topic in answer["topics"]:
        for partition in topic["partitions"]:
            partition["isr_nodes"].sort()
    return answer


SCENARIOS: Final = (another_leads,)
