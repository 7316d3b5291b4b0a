"""ListOffsets, OffsetForLeaderEpoch and DescribeProducers: what a client may know of a partition without reading it."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from kraft.wire.schema.describe_producers import DescribeProducersRequest, TopicRequest
from kraft.wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.wire.schema.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.end_to_end.kafka.differences.batches import NOW_MS, batch
from tests.end_to_end.kafka.differences.peer import TIMEOUT_MS, Peer
from tests.end_to_end.kafka.differences.produce_scenarios import produce

_EPOCHS_FROM: Final = 4


def _filled(peer: Peer, topic: str) -> UUID:
    """Offsets 0 to 5: three at 1,000 to 1,002, one earlier than these, two late ones of which the first is latest."""
    topic_id = peer.create_topic(topic)
    for records in (batch("a", "b", "c", at_ms=1_000), batch("d", at_ms=500), batch("e", at_ms=9_000), batch("f")):
        peer.call(produce(9, topic, topic_id, records), 9)
    return topic_id


def _list_offsets(
    topic: str, timestamp: int, partition: int = 0, epoch: int = -1, isolation: int = 0
) -> ListOffsetsRequest:
    one = ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=(ListOffsetsTopic(name=topic, partitions=(one,)),),
        timeout_ms=TIMEOUT_MS,
    )


def list_offsets(peer: Peer) -> None:
    _filled(peer, "dated")
    peer.create_topic("undated")
    for version in range(1, 12):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, 500, 501, 1_001, 1_003, 9_001, NOW_MS, NOW_MS + 10_000_000):
            what = "now" if timestamp == NOW_MS else "later" if timestamp > NOW_MS else str(timestamp)
            peer.ask(f"v{version} {what}", _list_offsets("dated", timestamp), version)
        for timestamp in (-1, -2, -3, -4, -5, 0):
            peer.ask(f"v{version} {timestamp} of none", _list_offsets("undated", timestamp), version)
        peer.ask(f"v{version} partition", _list_offsets("dated", -1, partition=5), version)
        peer.ask(f"v{version} topic", _list_offsets("nowhere", -1), version)
    for version in (4, 7, 11):
        for epoch in (0, 1, -1, -2):
            peer.ask(f"v{version} epoch {epoch}", _list_offsets("dated", -1, epoch=epoch), version)
    for timestamp in (-1, -3, 1_001):
        peer.ask(f"committed {timestamp}", _list_offsets("dated", timestamp, isolation=1), 7)
    peer.ask("isolation 3", _list_offsets("dated", -1, isolation=3), 7)
    twice = tuple(ListOffsetsPartition(partition_index=0, timestamp=each) for each in (-1, -2))
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="dated", partitions=twice),))
    peer.ask("the same partition twice", request, 7)
    peer.ask("no topics", ListOffsetsRequest(replica_id=-1, topics=()), 7)
    peer.ask("invalid name", _list_offsets("a/b", -1), 7)


def offset_for_leader_epoch(peer: Peer) -> None:
    _filled(peer, "led")

    def ask(what: str, topic: str, leader_epoch: int, current: int = -1, partition: int = 0) -> None:
        one = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=leader_epoch)
        for version in (2, 3, 4):
            request = OffsetForLeaderEpochRequest(
                replica_id=-1, topics=(OffsetForLeaderTopic(topic=topic, partitions=(one,)),)
            )
            peer.ask(f"v{version} {what}", request, version)

    for epoch in (0, 1, -1, -2, 5):
        ask(f"epoch {epoch}", "led", epoch)
        ask(f"current epoch {epoch}", "led", 0, epoch)
    ask("partition", "led", 0, partition=3)
    ask("topic", "nowhere", 0)


def describe_producers(peer: Peer) -> None:
    topic_id = peer.create_topic("producers")
    empty = DescribeProducersRequest(topics=(TopicRequest(name="producers", partition_indexes=(0,)),))
    peer.ask("none", empty, 0)
    peer.call(produce(9, "producers", topic_id, batch("a", "b", producer=(5, 3, 0))), 9)
    peer.ask("one", empty, 0)
    peer.ask("partition", DescribeProducersRequest(topics=(TopicRequest(name="producers", partition_indexes=(4,)),)), 0)
    peer.ask("topic", DescribeProducersRequest(topics=(TopicRequest(name="nowhere", partition_indexes=(0,)),)), 0)
    peer.ask("invalid name", DescribeProducersRequest(topics=(TopicRequest(name="a/b", partition_indexes=(0,)),)), 0)


SCENARIOS: Final = (list_offsets, offset_for_leader_epoch, describe_producers)
