"""Topics placed on three brokers, by the controller and by hand, and moved about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraft.wire.schema.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kraft.wire.schema.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kraft.wire.schema.create_topics import CreatableTopic, CreateTopicsRequest
from kraft.wire.schema.elect_leaders import ElectLeadersRequest, TopicPartitions
from kraft.wire.schema.list_partition_reassignments import ListPartitionReassignmentsRequest
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from tests.end_to_end.kafka.differences.peer import TIMEOUT_MS, Peer
from tests.support.new_topic import new_topic

_Replicas = tuple[int, ...]


def placed_on_three(peers: Mapping[int, Peer]) -> None:
    peer = peers[1]

    def create(what: str, topic: CreatableTopic) -> None:
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS)
        peer.ask(what, request, 7, keep=_without_configs)

    create("three replicas", new_topic("everywhere", 4, 3))
    create("four replicas", new_topic("bad", 4, 4))
    create("by hand", new_topic("by-hand", -1, -1, assignments={0: (1, 2), 1: (2, 3)}))
    create("lists of different lengths", new_topic("bad", -1, -1, assignments={0: (1, 2), 1: (3,)}))
    create("one broker that there is not", new_topic("bad", -1, -1, assignments={0: (1, 9)}))
    create("two fewer in sync than demanded", new_topic("strict", 1, 3, configs={"min.insync.replicas": "3"}))
    _grow(peer)
    _move(peer)
    for name in ("everywhere", "by-hand"):
        request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        peer.ask(f"{name} in the end", request, 12, keep=_counted if name == "everywhere" else _told)


def _grow(peer: Peer) -> None:
    def ask(what: str, count: int, *assignments: _Replicas) -> None:
        placed = tuple(CreatePartitionsAssignment(broker_ids=each) for each in assignments)
        topic = CreatePartitionsTopic(name="by-hand", count=count, assignments=placed or None)
        peer.ask(what, CreatePartitionsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS, validate_only=False), 3)

    ask("grown by fewer replicas", 3, (1,))
    ask("grown by more replicas", 3, (1, 2, 3))
    ask("grown by lists of different lengths", 4, (1, 2), (3,))
    ask("grown by hand", 3, (3, 1))


def _move(peer: Peer) -> None:
    def ask(what: str, replicas: _Replicas | None, **also: bool) -> None:
        partition = ReassignablePartition(partition_index=0, replicas=replicas)
        topics = (ReassignableTopic(name="by-hand", partitions=(partition,)),)
        peer.ask(what, AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics, **also), 1)

    ask("moved to more, which is not allowed", (1, 2, 3), allow_replication_factor_change=False)
    ask("moved to fewer, which is not allowed", (1,), allow_replication_factor_change=False)
    ask("moved to others of as many", (1, 3), allow_replication_factor_change=False)
    under_way = ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None)
    peer.until(under_way, 0, lambda reply: not reply.topics)
    peer.ask("under way", under_way, 0)
    ask("nothing to stop", None)
    ask("with the leader elsewhere", (3, 1))
    peer.until(under_way, 0, lambda reply: not reply.topics)
    for what, kind in (("preferred", 0), ("unclean", 1), ("preferred again", 0)):
        elected = (TopicPartitions(topic="by-hand", partitions=(0,)),)
        request = ElectLeadersRequest(election_type=kind, topic_partitions=elected, timeout_ms=TIMEOUT_MS)
        peer.ask(what, request, 2)


def _without_configs(answer: Any) -> Any:
    for topic in answer["topics"]:
        topic.pop("configs", None)
        topic["topic_id"] = "<id>" if topic.get("topic_id") else ""
    return answer


def _counted(answer: Any) -> Any:
    """Return how many partitions each broker leads and holds: only that is not random."""
    partitions = answer["topics"][0]["partitions"]
    return {
        "replicas": [len(set(each["replica_nodes"])) for each in partitions],
        "leads": sorted(sum(each["leader_id"] == broker for each in partitions) for broker in (1, 2, 3)),
        "epochs": [each["leader_epoch"] for each in partitions],
    }


def _told(answer: Any) -> Any:
    """Return the in-sync replicas in order, without the epochs, which depend on timing."""
    partitions = sorted(answer["topics"][0]["partitions"], key=lambda each: int(each["partition_index"]))
    return [[each["leader_id"], each["replica_nodes"], sorted(each["isr_nodes"])] for each in partitions]


SCENARIOS: Final = (placed_on_three,)
