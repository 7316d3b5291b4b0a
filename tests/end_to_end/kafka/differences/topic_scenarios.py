"""Topics: created, grown, emptied and deleted, and what their names and ids then mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kraft.wire.schema.create_topics import CreatableTopic, CreateTopicsRequest
from kraft.wire.schema.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kraft.wire.schema.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kraft.wire.schema.fetch import FetchPartition
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from tests.end_to_end.kafka.differences.batches import batch
from tests.end_to_end.kafka.differences.fetch_scenarios import fetch
from tests.end_to_end.kafka.differences.peer import TIMEOUT_MS, Peer
from tests.end_to_end.kafka.differences.produce_scenarios import UNKNOWN_ID, produce
from tests.support.new_topic import new_topic

_VERSIONS: Final = range(2, 8)
_CONFIGS_KEPT: Final = frozenset({"cleanup.policy", "retention.ms", "max.message.bytes", "min.insync.replicas"})
_UNKNOWN_TOPIC: Final = 3


def _create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS, validate_only=validate_only)


def _some_configs(answer: Any) -> Any:
    """Not all: which there are differs, and DescribeConfigs tells about that."""
    for topic in answer["topics"]:
        if "topic_id" in topic:
            topic["topic_id"] = "<id>"
        if topic.get("configs"):
            topic["configs"] = sorted(
                (each for each in topic["configs"] if each["name"] in _CONFIGS_KEPT), key=lambda each: str(each["name"])
            )
    answer["topics"].sort(key=str)
    return answer


def create_topics(peer: Peer) -> None:
    for version in _VERSIONS:
        _create_topics(peer, version)
    _refused_topics(peer)


def _create_topics(peer: Peer, version: int) -> None:
    def ask(what: str, *topics: CreatableTopic, validate_only: bool = False) -> None:
        request = _create(*topics, validate_only=validate_only)
        peer.ask(f"v{version} {what}", request, version, keep=_some_configs)

    name = f"new-{version}"
    ask("only asked", new_topic(name), validate_only=True)
    ask("new", new_topic(name, 3))
    ask("again", new_topic(name, 3))
    ask("only asked again", new_topic(name, 3), validate_only=True)
    ask("configs", new_topic(f"set-{version}", configs={"retention.ms": "5000", "cleanup.policy": "compact"}))
    if version >= 4:
        ask("defaults", new_topic(f"default-{version}", -1, -1))
    ask("assigned", new_topic(f"assigned-{version}", -1, -1, assignments={0: (1,), 1: (1,)}))


def _refused_topics(peer: Peer) -> None:
    def ask(what: str, *topics: CreatableTopic, versions: tuple[int, ...] = (2, 5, 7)) -> None:
        for version in versions:
            peer.ask(f"v{version} {what}", _create(*topics), version, keep=_some_configs)

    for what, name in (("slash", "a/b"), ("empty", ""), ("dot", "."), ("dots", ".."), ("long", "x" * 250)):
        ask(f"{what} name", new_topic(name))
    ask("longest name", new_topic("y" * 249), versions=(7,))
    for partitions in (0, -2):
        ask(f"{partitions} partitions", new_topic("bad", partitions))
    for factor in (0, -2, 3):
        ask(f"{factor} replicas", new_topic("bad", 1, factor))
    ask("unknown config", new_topic("bad", configs={"no.such.config": "1"}))
    ask("config of a wrong type", new_topic("bad", configs={"retention.ms": "soon"}))
    ask("config out of range", new_topic("bad", configs={"min.insync.replicas": "0"}))
    ask("unknown policy", new_topic("bad", configs={"cleanup.policy": "burn"}))
    ask("null config", new_topic("bad", configs={"retention.ms": None}))
    ask("assignment and partitions", new_topic("bad", 2, -1, assignments={0: (1,), 1: (1,)}))
    ask("assignment and replicas", new_topic("bad", -1, 1, assignments={0: (1,)}))
    ask("assigned from 1", new_topic("bad", -1, -1, assignments={1: (1,)}))
    ask("assigned with a hole", new_topic("bad", -1, -1, assignments={0: (1,), 2: (1,)}))
    ask("assigned to an unknown broker", new_topic("bad", -1, -1, assignments={0: (9,)}))
    ask("assigned twice to one", new_topic("bad", -1, -1, assignments={0: (1, 1)}))
    ask("assigned to nobody", new_topic("bad", -1, -1, assignments={0: ()}))
    ask("twice in one request", new_topic("bad"), new_topic("bad"))
    ask("one of two", new_topic("bad", 0), new_topic("new-7"))
    peer.create_topic("alike.name")
    ask("a name like another", new_topic("alike_name"))
    ask("no topics")
    ask("more in sync than replicas", new_topic("bad-isr", configs={"min.insync.replicas": "2"}), versions=(7,))


def delete_topics(peer: Peer) -> None:
    for version in range(1, 7):
        name = f"gone-{version}"
        peer.create_topic(name)
        for what, names in (("one", (name,)), ("again", (name,)), ("unknown", ("nowhere",)), ("slash", ("a/b",))):
            peer.ask(f"v{version} {what}", _delete(version, *names), version)
            _wait_gone(peer, name)
        peer.ask(f"v{version} none", _delete(version), version)
    for name in ("pair-a", "pair-b"):
        peer.create_topic(name)
    peer.ask("one twice", _delete(5, "pair-a", "pair-a"), 5)
    peer.ask("one of two", _delete(5, "pair-b", "nowhere"), 5, keep=_sorted)
    topic_id = peer.create_topic("by-id")

    def ask(what: str, *topics: tuple[str | None, UUID]) -> None:
        states = tuple(DeleteTopicState(name=name, topic_id=number) for name, number in topics)
        peer.ask(what, DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS), 6, keep=_sorted)

    ask("name and id", ("by-id", topic_id))
    ask("unknown id", (None, UNKNOWN_ID))
    ask("neither", (None, ZERO_UUID))
    ask("id twice", (None, topic_id), (None, topic_id))
    ask("name, and its id", ("by-id", ZERO_UUID), (None, topic_id))
    ask("id", (None, topic_id))
    _wait_gone(peer, "by-id")
    ask("id again", (None, topic_id))


def _sorted(answer: Any) -> Any:
    answer["responses"].sort(key=str)
    return answer


def _delete(version: int, *names: str) -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=names, timeout_ms=TIMEOUT_MS)
    states = tuple(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names)
    return DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)


def _wait_gone(peer: Peer, name: str) -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    peer.until(request, 12, lambda reply: reply.topics[0].error_code == _UNKNOWN_TOPIC)


def topic_ids_across_re_creation(peer: Peer) -> None:
    """A request with the old id gets UNKNOWN_TOPIC_ID, not the new topic's records."""
    first = peer.create_topic("again")
    peer.call(produce(13, "", first, batch("old")), 13)
    session_id = peer.call(fetch(13, "", first, [_from_start()], session=(0, 0)), 13).session_id
    peer.ask("deleted", _delete(5, "again"), 5)
    _wait_gone(peer, "again")
    peer.ask("produce when deleted", produce(13, "", first, batch("x")), 13)
    peer.ask("fetch when deleted", fetch(13, "", first, [_from_start()]), 13)
    second = peer.create_topic("again")
    for version in (12, 13):
        request = MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=first),))
        peer.ask(f"v{version} old id", request, version)
        request = MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=second),))
        peer.ask(f"v{version} new id", request, version)
    peer.ask("produce to the old", produce(13, "", first, batch("x")), 13)
    peer.ask("produce to the new", produce(13, "", second, batch("new")), 13)
    for version in (13, 18):
        peer.ask(f"v{version} fetch of the old", fetch(version, "", first, [_from_start()]), version)
        peer.ask(f"v{version} fetch of the new", fetch(version, "", second, [_from_start()]), version)
    peer.ask("fetch by name", fetch(12, "again", ZERO_UUID, [_from_start()]), 12)
    peer.ask("session of the old", fetch(13, "", first, [], session=(session_id, 1)), 13)


def _from_start() -> FetchPartition:
    return FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)


def create_partitions(peer: Peer) -> None:
    def ask(
        what: str,
        name: str,
        count: int,
        *assignments: tuple[int, ...] | None,
        check: bool = False,
        versions: Iterable[int] = (0, 3),
    ) -> None:
        placed = tuple(CreatePartitionsAssignment(broker_ids=each) for each in assignments if each is not None)
        topic = CreatePartitionsTopic(name=name, count=count, assignments=placed if assignments else None)
        for version in versions:
            request = CreatePartitionsRequest(topics=(topic,), timeout_ms=TIMEOUT_MS, validate_only=check)
            peer.ask(f"v{version} {what}", request, version)

    peer.create_topic("grown", 2)
    ask("fewer", "grown", 1)
    ask("as many", "grown", 2)
    ask("none", "grown", 0)
    ask("negative", "grown", -1)
    ask("too many", "grown", 1_000_000_000)
    ask("topic", "nowhere", 3)
    ask("invalid name", "a/b", 3)
    ask("too few placed", "grown", 4, (1,))
    ask("too many placed", "grown", 3, (1,), (1,))
    ask("unknown broker", "grown", 3, (9,))
    ask("twice to one", "grown", 3, (1, 1))
    ask("to nobody", "grown", 3, ())
    ask("only asked", "grown", 3, check=True, versions=range(4))
    for version in range(4):
        ask("more", "grown", 3 + version, versions=(version,))
    ask("placed", "grown", 7, (1,), versions=(3,))
    peer.create_topic("grown-by-nobody", 2)
    ask("none placed", "grown-by-nobody", 3, None)
    twice = tuple(CreatePartitionsTopic(name="grown", count=count, assignments=None) for count in (8, 9))
    peer.ask("twice", CreatePartitionsRequest(topics=twice, timeout_ms=TIMEOUT_MS, validate_only=False), 3)


def delete_records(peer: Peer) -> None:
    topic_id = peer.create_topic("cut", 2)
    for value in "abcdef":
        peer.call(produce(9, "cut", topic_id, batch(value)), 9)

    def ask(what: str, name: str, offset: int, partition: int = 0, versions: Any = (0, 2)) -> None:
        one = DeleteRecordsPartition(partition_index=partition, offset=offset)
        request = DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=name, partitions=(one,)),), timeout_ms=TIMEOUT_MS
        )
        for version in versions:
            peer.ask(f"v{version} {what}", request, version)

    ask("nothing", "cut", 0)
    ask("two", "cut", 2, versions=range(3))
    ask("less than that", "cut", 1)
    ask("beyond the end", "cut", 7)
    ask("below -1", "cut", -2)
    ask("partition", "cut", 0, partition=9)
    ask("topic", "nowhere", 0)
    ask("invalid name", "a/b", 0)
    ask("all", "cut", -1)
    ask("all again", "cut", 6)
    ask("all of none", "cut", -1, partition=1)
    peer.create_topic("kept", cleanup_policy="compact")
    ask("compacted", "kept", 0)
    for version in (4, 12):
        what = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
        peer.ask(f"v{version} fetch below the start", fetch(version, "cut", topic_id, [what]), version)
    peer.ask("produce answers the start", produce(9, "cut", topic_id, batch("g")), 9)


SCENARIOS: Final = (create_topics, delete_topics, topic_ids_across_re_creation, create_partitions, delete_records)
