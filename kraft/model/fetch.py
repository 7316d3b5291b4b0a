"""Fetch: reads record batches from given offsets."""

from __future__ import annotations

from msgspec import Struct, field

from kraft.model.errors import ErrorCode


class FetchPartition(Struct, frozen=True, kw_only=True):
    """Partition to fetch. `current_leader_epoch` is the one that the client knows, -1 for none."""

    topic: str
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1


class FetchRequest(Struct, frozen=True, kw_only=True):
    """Request that waits up to `max_wait_ms` for `min_bytes`; the response has at least one batch (KIP-74)."""

    request_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: list[FetchPartition]
    reads_committed: bool = False
    """Return records only below the last stable offset, and the aborted transactions among them."""

    of_replica: bool = False
    """Read the replica here up to its own high watermark, whether it leads or follows, and all records of it: for
    comparing replicas, as Kafka's replica id -2 does. A follower may be behind, so no consumer reads it."""


class AbortedTransaction(Struct, frozen=True, kw_only=True):
    """Transaction whose records, from `first_offset` up to the producer's next marker, were aborted."""

    producer_id: int
    first_offset: int


class FetchPartitionResult(Struct, frozen=True, kw_only=True):
    """Result for one partition. `records` are whole batches below the high watermark, or the last stable offset.

    The first batch may begin before `fetch_offset`.
    """

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    leader_id: int = -1
    leader_epoch: int = -1
    last_stable_offset: int = -1
    aborted: list[AbortedTransaction] = field(default_factory=list)
    """Aborted transactions in `records`; only for a request that reads committed records."""


class FetchResponse(Struct, frozen=True, kw_only=True):
    request_id: int
    partitions: list[FetchPartitionResult]
    throttle_time_ms: int = 0
    """The client has used more than its quota, and has to wait for so long."""
