"""What operators ask a broker about idempotent producers, as values. Source: KIP-664."""

from __future__ import annotations

from dataclasses import dataclass, field

from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequest:
    partitions: list[PartitionName]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """`last_sequence` is -1 when its epoch has written no batch yet."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProducers:
    """By producer id."""

    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    producers: list[ActiveProducer] = field(default_factory=list)
