"""Fetch requests to partitions that one broker leads, and their responses."""

from __future__ import annotations

from kraft.model.errors import ErrorCode
from kraft.model.fetch import FetchPartition, FetchRequest, FetchResponse
from kraft.model.ids import TopicPartition
from kraft.server.replica.partition import Partition
from tests.support.server.replicas import Broker, append_to, batch, lead, values_of


def committed(broker: Broker, *values: str, number: int = 0) -> Partition:
    """A partition that this broker leads alone, with one batch for each value, all committed."""
    partition = broker.open(TopicPartition("orders", number))
    lead(partition, replicas=(1,))
    for value in values:
        append_to(partition, batch(value), 1)
    broker.sync()
    return partition


def asking(offset: int = 0, *, number: int = 0, bytes_max: int = 1 << 20, epoch: int = -1) -> FetchPartition:
    return FetchPartition(
        topic="orders",
        partition=number,
        fetch_offset=offset,
        partition_max_bytes=bytes_max,
        current_leader_epoch=epoch,
    )


def request(
    *partitions: FetchPartition, max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 1 << 20
) -> FetchRequest:
    return FetchRequest(
        request_id=7,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        partitions=list(partitions),
    )


def values(response: FetchResponse) -> list[list[str]]:
    return [values_of(result.records) for result in response.partitions]


def codes(response: FetchResponse) -> list[ErrorCode]:
    return [result.error_code for result in response.partitions]
