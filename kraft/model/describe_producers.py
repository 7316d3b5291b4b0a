"""DescribeProducers: the idempotent producers of partitions. Source: KIP-664."""

from __future__ import annotations

from msgspec import Struct, field

from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName


class DescribeProducersRequest(Struct, frozen=True, kw_only=True):
    partitions: list[PartitionName]


class ActiveProducer(Struct, frozen=True, kw_only=True):
    """Idempotent producer of a partition. `last_sequence` is -1 if its epoch has written no batch yet."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int


class PartitionProducers(Struct, frozen=True, kw_only=True):
    """Producers of one partition, by producer id."""

    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    producers: list[ActiveProducer] = field(default_factory=list)
