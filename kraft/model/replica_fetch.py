"""ReplicaFetch: a follower copies records from the leaders of partitions."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId, TopicIdPartition


class ReplicaFetchPartition(Struct, frozen=True, kw_only=True):
    """Partition to fetch. `fetch_offset` N says that everything below N is on the follower's disk."""

    topic_id: UUID
    partition: int
    fetch_offset: int
    last_fetched_epoch: int
    current_leader_epoch: int
    log_start_offset: int
    high_watermark: int
    partition_max_bytes: int

    @property
    def id(self) -> TopicIdPartition:
        return TopicIdPartition(TopicId(self.topic_id), self.partition)


class ReplicaFetchRequest(Struct, frozen=True, kw_only=True):
    """Request for partitions that broker `replica_id` copies from this leader.

    Several may wait at the leader at the same time, with different partitions. The response has the same `number`.
    """

    number: int = 0
    replica_id: int
    broker_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: list[ReplicaFetchPartition]


class ReplicaFetchResult(Struct, frozen=True, kw_only=True):
    """Result for one partition: records, or the diverging epoch (KIP-595) if the follower's log has diverged."""

    topic_id: UUID
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    leader_epoch: int = -1
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes | bytearray | memoryview = b""
    diverging_epoch: int = -1
    diverging_end_offset: int = -1

    @property
    def id(self) -> TopicIdPartition:
        return TopicIdPartition(TopicId(self.topic_id), self.partition)


class ReplicaFetchResponse(Struct, frozen=True, kw_only=True):
    number: int = 0
    partitions: list[ReplicaFetchResult]
