"""Facts about a cluster of three nodes, as `kraft cluster health` finds them out: healthy but for the changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from kraft.client import OngoingPartitionReassignment
from kraft.health.findings import ClusterFacts
from kraft.health.partitions import Shown
from kraft.model.brokers import BrokerDescription
from kraft.model.describe_quorum import QuorumDescription, QuorumMember
from kraft.model.errors import ErrorCode
from kraft.model.ids import LogDirectory
from kraft.wire.schema.describe_log_dirs import DescribeLogDirsResult
from kraft.wire.schema.describe_topic_partitions import DescribeTopicPartitionsResponsePartition

DATA = LogDirectory("/data")


def log_directory(path: str, code: ErrorCode = ErrorCode.NONE, reason: str = "") -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=code, log_dir=path, topics=(), reason=reason)


def broker(broker_id: int, **changes: Any) -> BrokerDescription:
    described = BrokerDescription(
        broker_id=broker_id,
        broker_epoch=7,
        addresses=[],
        rack="",
        fenced=False,
        fenced_by_operator=False,
        in_controlled_shutdown=False,
        leaders=1,
        replicas=1,
        in_sync=1,
        log_directory_ids=[],
        features=[],
    )
    return replace(described, **changes)


def voter(node_id: int, **changes: Any) -> QuorumMember:
    known = QuorumMember(
        node_id=node_id, log_end_offset=40, lag=0, last_fetch_timestamp_ms=0, last_caught_up_timestamp_ms=60_000
    )
    return replace(known, **changes)


def partition(
    number: int = 0,
    *,
    topic: str = "orders",
    leader: int = 1,
    isr: Sequence[int] = (1, 2, 3),
    elr: Sequence[int] = (),
    min_isr: int = 2,
    replicas: Sequence[int] = (1, 2, 3),
    offline: Sequence[int] = (),
    reassignment: OngoingPartitionReassignment | None = None,
    is_throttled: bool = False,
) -> Shown:
    metadata = DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=number,
        leader_id=leader,
        leader_epoch=4,
        replica_nodes=tuple(replicas),
        isr_nodes=tuple(isr),
        offline_replicas=tuple(offline),
        eligible_leader_replicas=tuple(elr),
    )
    return Shown(
        topic=topic,
        partition=metadata,
        reassignment=reassignment,
        min_insync_replicas=min_isr,
        is_throttled=is_throttled,
    )


def facts(**changes: Any) -> ClusterFacts:
    healthy = ClusterFacts(
        fenced={},
        quorum=QuorumDescription(leader_id=1, voters=[voter(1), voter(2), voter(3)], cluster_id="c"),
        brokers=[broker(1), broker(2), broker(3)],
        partitions=[partition(0), partition(1)],
        directories={each: [log_directory(DATA)] for each in (1, 2, 3)},
        hanging=[],
        unknown={},
    )
    return replace(healthy, **changes)
