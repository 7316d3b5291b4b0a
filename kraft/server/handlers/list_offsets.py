"""ListOffsets: where a partition begins and ends for consumers, and which record stands at a point in time."""

from __future__ import annotations

import asyncio
from typing import Final

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.requests import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResult,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kraft.server.partition import Partition
from kraft.server.partitions import Partitions

UNKNOWN = -1

PARTITIONS_AT_ONCE: Final = 500
"""Then others have their turn: a request may name more partitions than are looked up in a second."""


class ListOffsetsHandler:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def handle(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        results = []
        for number, wanted in enumerate(request.partitions, start=1):
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            results.append(self._answer(wanted))
        return ListOffsetsResponse(partitions=results)

    def _answer(self, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResult:
        try:
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            partition.as_leader(wanted.current_leader_epoch)
            offset, timestamp_ms = _look_up(partition, wanted.timestamp_ms)
        except Refusal as refusal:
            return ListOffsetsPartitionResult(
                topic=wanted.topic,
                partition=wanted.partition,
                error_code=refusal.error_code,
                error_message=refusal.message,
            )
        return ListOffsetsPartitionResult(
            topic=wanted.topic,
            partition=wanted.partition,
            error_code=ErrorCode.NONE,
            offset=offset,
            timestamp_ms=timestamp_ms,
            leader_epoch=partition.leader_epoch,
        )


def _look_up(partition: Partition, timestamp_ms: int) -> tuple[int, int]:
    """Offset and timestamp, below the high watermark. Raises Refusal."""
    if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return partition.log.log_start_offset, UNKNOWN
    if timestamp_ms == LATEST_TIERED_TIMESTAMP:
        return UNKNOWN, UNKNOWN
    _check_high_watermark_is_current(partition)
    if timestamp_ms == LATEST_TIMESTAMP:
        return partition.high_watermark, UNKNOWN
    if timestamp_ms < 0 and timestamp_ms != MAX_TIMESTAMP:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp_ms} does not stand for anything here")
    found = partition.offset_of_max_timestamp() if timestamp_ms == MAX_TIMESTAMP else partition.offset_at(timestamp_ms)
    return (UNKNOWN, UNKNOWN) if found is None or found[0] >= partition.high_watermark else found


def _check_high_watermark_is_current(partition: Partition) -> None:
    """A leader that was just elected may know less of what is committed than consumers were shown before (KIP-207)."""
    leader = partition.as_leader()
    if partition.high_watermark < leader.epoch_start_offset:
        raise Refusal(
            ErrorCode.OFFSET_NOT_AVAILABLE, f"{partition.topic_partition} has a new leader that is still catching up"
        )
