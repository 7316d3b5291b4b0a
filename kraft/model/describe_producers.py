"""DescribeProducers: the producers of partitions. Source: KIP-664."""

from __future__ import annotations

from msgspec import Struct

from kraft.model.errors import ErrorCode
from kraft.model.partitions import PartitionName


class DescribeProducersRequest(Struct, frozen=True, kw_only=True):
    partitions: tuple[PartitionName, ...]


class ActiveProducer(Struct, frozen=True, kw_only=True):
    """Idempotent or transactional producer of a partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """-1 if its epoch has written no batch yet."""

    last_timestamp_ms: int
    coordinator_epoch: int = -1
    """Epoch of the coordinator that wrote the producer's last marker; -1 if there is none."""

    transaction_start_offset: int = -1
    """First offset of the producer's open transaction; -1 if none is open."""


class PartitionProducers(Struct, frozen=True, kw_only=True):
    """Producers of one partition, by producer id."""

    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""
    producers: tuple[ActiveProducer, ...] = ()


class DescribeProducersResponse(Struct, frozen=True, kw_only=True):
    partitions: tuple[PartitionProducers, ...]
