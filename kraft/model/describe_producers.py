"""DescribeProducers: the idempotent producers of partitions. Source: KIP-664."""

from __future__ import annotations

from dataclasses import dataclass, field

from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequest:
    partitions: list[PartitionName]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """Idempotent producer of a partition. `last_sequence` is -1 if its epoch has written no batch yet."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProducers:
    """Producers of one partition, by producer id."""

    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    producers: list[ActiveProducer] = field(default_factory=list)
