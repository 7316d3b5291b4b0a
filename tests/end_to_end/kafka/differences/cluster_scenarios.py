"""The first requests of a client: ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions, InitProducerId."""

from __future__ import annotations

import struct
from typing import Any, Final
from uuid import UUID

from kraft.wire.api_keys import ApiKey
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.api_versions import ApiVersionsRequest
from kraft.wire.schema.describe_cluster import DescribeClusterRequest
from kraft.wire.schema.describe_quorum import DescribeQuorumRequest, RequestedPartition, RequestedTopic
from kraft.wire.schema.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kraft.wire.schema.init_producer_id import InitProducerIdRequest
from kraft.wire.schema.metadata import MetadataRequest, MetadataRequestTopic
from tests.end_to_end.kafka.differences.peer import Peer
from tests.end_to_end.kafka.differences.produce_scenarios import UNKNOWN_ID

VERSIONS: Final = range(14)
_IDS_FROM: Final = 10


def api_versions(peer: Peer) -> None:
    for version in range(5):
        request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
        peer.ask(f"v{version}", request, version, keep=_ranges)
    for what, name, software in (("no name", "", "1"), ("no version", "tests", ""), ("odd name", "a b", "1")):
        request = ApiVersionsRequest(client_software_name=name, client_software_version=software)
        for version in (0, 3, 4):
            peer.ask(f"v{version} {what}", request, version, keep=lambda answer: answer["error_code"])


def _ranges(answer: Any) -> Any:
    """Return the version ranges by API name, so that one more API is one difference."""
    ranges = answer["api_keys"]
    answer["api_keys"] = {_name(each["api_key"]): [each["min_version"], each["max_version"]] for each in ranges}
    for features in ("supported_features", "finalized_features"):
        if features in answer:
            answer[features] = {each.pop("name"): each for each in answer[features]}
    return answer


def _name(api_key: int) -> str:
    return ApiKey(api_key).name if api_key in ApiKey.__members__.values() else f"key {api_key}"


def unknown_versions(peer: Peer) -> None:
    """Unknown versions: ApiVersions has a response, other APIs have none."""
    head = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1)
    peer.ask_raw_head("ApiVersions 99", head + b"\0\2a\2b\0")
    for key, version in ((ApiKey.METADATA, 99), (ApiKey.FETCH, 3), (ApiKey.PRODUCE, 2), (ApiKey.PRODUCE, 99), (999, 0)):
        peer.ask_raw_head(f"{_name(key)} {version}", struct.pack(">hhih", key, version, 7, -1) + bytes(40))


def odd_frames(peer: Peer) -> None:
    """Around and behind a request for the metadata of no topic: what clients send, and what none does."""
    metadata = struct.pack(">hhi", ApiKey.METADATA, 12, 7)
    body = b"\1\0\0\0"
    tags = b"\1\5\3abc"
    for what, frame in (
        ("plain", b"\0\1c\0" + body),
        ("no client id", b"\xff\xff\0" + body),
        ("empty client id", b"\0\0\0" + body),
        ("a negative length of a client id", b"\xff\xfe\0" + body),
        ("a client id that is no text", b"\0\1\xff\0" + body),
        ("tagged fields in the header", b"\0\1c" + tags + body),
        ("tagged fields behind the message", b"\0\1c\0" + body[:-1] + tags),
        ("trailing bytes", b"\0\1c\0" + body + b"\0\0\0"),
        ("cut off", b"\0\1c\0" + body[:-2]),
        ("more topics than there are", b"\0\1c\0\x7f" + body[1:]),
        ("a header alone", b""),
        ("a long client id", b"\x7f\xff" + b"c" * 0x7FFF + b"\0" + body),
    ):
        peer.ask_raw_head(what, metadata + frame)
    for what, size in (("no bytes", 0), ("a negative size", -1), ("a size above the limit", 0x7FFFFFFF)):
        peer.ask_raw_bytes(what, size.to_bytes(4, "big", signed=True))
    peer.ask_raw_bytes("a client of the web", b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n")


def _metadata(version: int, *topics: str, create: bool = False, operations: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in topics),
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=operations,
        include_topic_authorized_operations=operations,
    )


def metadata_of_topics(peer: Peer) -> None:
    topic_id = peer.create_topic("told", 2)
    for version in VERSIONS:
        peer.ask(f"v{version} one", _metadata(version, "told"), version)
        peer.ask(f"v{version} none", _metadata(version), version, keep=_of("told"))
        if version:
            everything = MetadataRequest(topics=None, allow_auto_topic_creation=False)
            peer.ask(f"v{version} all", everything, version, keep=_of("told"))
        if version >= 4:
            # Before that, asking for a topic creates it.
            peer.ask(f"v{version} unknown", _metadata(version, "nowhere"), version)
            peer.ask(f"v{version} one of two", _metadata(version, "told", "nowhere"), version, keep=_sorted)
            for what, name in (("slash", "a/b"), ("empty", ""), ("dots", ".."), ("long", "x" * 250)):
                for create in (False, True):
                    request = _metadata(version, name, create=create)
                    peer.ask(f"v{version} {what} name, create={create}", request, version)
        if version >= 8:
            peer.ask(f"v{version} operations", _metadata(version, "told", operations=True), version)
        if version >= _IDS_FROM:
            _ask_by_id(peer, version, topic_id)
    peer.ask("twice", _metadata(12, "told", "told"), 12)


def _of(topic: str) -> Any:
    """Only this one of all topics: the others are those of other scenarios."""

    def keep(answer: Any) -> Any:
        answer["topics"] = [each for each in answer["topics"] if each["name"] == topic]
        return answer

    return keep


def _sorted(answer: Any) -> Any:
    answer["topics"].sort(key=str)
    return answer


def _ask_by_id(peer: Peer, version: int, topic_id: UUID) -> None:
    for what, number, name in (
        ("id", topic_id, None),
        ("unknown id", UNKNOWN_ID, None),
        ("id and name", topic_id, "told"),
        ("neither", ZERO_UUID, None),
    ):
        topics = (MetadataRequestTopic(name=name, topic_id=number),)
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        peer.ask(f"v{version} {what}", request, version)


def metadata_creates_topics(peer: Peer) -> None:
    for version in VERSIONS:
        name = f"made-by-{version}"
        peer.ask(f"v{version} first", _metadata(version, name, create=True), version)
        peer.wait_led(name)
        peer.ask(f"v{version} then", _metadata(version, name, create=True), version)
    peer.create_topic("near.by")
    peer.ask("a name like another", _metadata(12, "near_by", create=True), 12)


def describe_cluster(peer: Peer) -> None:
    for version in range(3):
        for operations in (False, True):
            request = DescribeClusterRequest(include_cluster_authorized_operations=operations)
            peer.ask(f"v{version} operations={operations}", request, version)
    for version in (1, 2):
        for endpoint_type in (0, 2, 3):
            request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=endpoint_type)
            peer.ask(f"v{version} endpoint type {endpoint_type}", request, version)
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)
    peer.ask("fenced ones too", request, 2)


def describe_topic_partitions(peer: Peer) -> None:
    for name in ("part-a", "part-b", "part-c"):
        peer.create_topic(name, 3)

    def ask(what: str, *topics: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> None:
        at = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
        named = tuple(TopicRequest(name=each) for each in topics)
        request = DescribeTopicPartitionsRequest(topics=named, response_partition_limit=limit, cursor=at)
        peer.ask(what, request, 0)

    ask("one", "part-a")
    ask("not in order", "part-c", "part-a", "part-b")
    ask("twice", "part-a", "part-a")
    ask("unknown", "part-x")
    ask("invalid name", "a/b")
    ask("empty name", "")
    for limit in (1, 2, 3, 4, 0, -1):
        ask(f"limit {limit}", "part-a", "part-b", limit=limit)
    ask("cursor in the first", "part-a", "part-b", cursor=("part-a", 1))
    ask("cursor in the second", "part-a", "part-b", cursor=("part-b", 2))
    ask("cursor behind the last partition", "part-a", "part-b", cursor=("part-a", 3))
    ask("cursor between topics", "part-a", "part-c", cursor=("part-b", 1))
    ask("cursor behind all", "part-a", cursor=("part-z", 0))
    ask("negative cursor", "part-a", cursor=("part-a", -1))
    ask("limit and cursor", "part-a", "part-b", "part-c", limit=2, cursor=("part-a", 2))


def init_producer_id(peer: Peer) -> None:
    sound = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    peer.until(sound, 5, lambda reply: reply.error_code == 0)
    for version in range(6):
        peer.ask(f"v{version}", sound, version)

    def ask(what: str, transactional_id: str | None, timeout_ms: int, producer_id: int = -1, epoch: int = -1) -> None:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        for version in (3, 5):
            peer.ask(f"v{version} {what}", request, version)

    ask("no timeout", None, 0)
    ask("negative timeout", None, -1)
    ask("id without epoch", None, 60_000, producer_id=5)
    ask("epoch without id", None, 60_000, epoch=5)
    ask("both", None, 60_000, producer_id=5, epoch=5)
    ask("empty transactional id", "", 60_000)


def describe_quorum(peer: Peer) -> None:
    def ask(what: str, *topics: tuple[str, int]) -> None:
        named = tuple(
            RequestedTopic(topic_name=name, partitions=(RequestedPartition(partition_index=index),))
            for name, index in topics
        )
        for version in range(3):
            request = DescribeQuorumRequest(topics=named)
            peer.ask(f"v{version} {what}", request, version, keep=_without_progress)

    ask("the one", ("__cluster_metadata", 0))
    ask("partition", ("__cluster_metadata", 1))
    ask("topic", ("nowhere", 0))
    ask("two topics", ("__cluster_metadata", 0), ("nowhere", 0))
    ask("none")


def _without_progress(answer: Any) -> Any:
    for topic in answer["topics"]:
        for partition in topic["partitions"]:
            for replica in (*partition["current_voters"], *partition["observers"]):
                replica["log_end_offset"] = "<offset>" if replica["log_end_offset"] >= 0 else replica["log_end_offset"]
            for field in ("high_watermark", "leader_epoch"):
                partition[field] = f"<{field}>" if partition[field] > 0 else partition[field]
    return answer


SCENARIOS: Final = (
    api_versions,
    unknown_versions,
    odd_frames,
    metadata_of_topics,
    metadata_creates_topics,
    describe_cluster,
    describe_topic_partitions,
    init_producer_id,
    describe_quorum,
)
