"""Produce: appends record batches to partitions."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from kraft.model.errors import ErrorCode, RecordError

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
"""`acks`: whose copies of the records are waited for."""


class ProducePartition(Struct, frozen=True, kw_only=True):
    """Record batches for one partition; `records` is one batch, or several back to back."""

    topic: str
    partition: int
    records: bytes | bytearray | memoryview


class ProduceRequest(Struct, frozen=True, kw_only=True):
    """Request to append batches. `acks` is one of the constants above; `timeout_ms` limits the wait."""

    request_id: int
    acks: int
    timeout_ms: int
    partitions: list[ProducePartition]
    transactional_id: str = ""
    """That of the producer, if batches belong to a transaction. Their partitions are added to it (KIP-890)."""


class ProducePartitionResult(Struct, frozen=True, kw_only=True):
    """Result for one partition. `base_offset` is that of the first record, -1 on an error.

    `leader_id` and `leader_epoch` are hints, -1 if unknown.
    """

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str = ""
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    leader_id: int = -1
    leader_epoch: int = -1
    record_errors: list[RecordError] = field(default_factory=list)
    """The invalid records, if the batch was refused because of single records."""


class ProduceResponse(Struct, frozen=True, kw_only=True):
    request_id: int
    partitions: list[ProducePartitionResult]
    throttle_time_ms: int = 0
    """The client has used more than its quota, and has to wait for so long."""
