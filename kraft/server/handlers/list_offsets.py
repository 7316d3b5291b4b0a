"""ListOffsets: where a partition begins and ends for consumers, and which record stands at a point in time."""

from __future__ import annotations

from typing import Final

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.model.requests import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
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
from kraft.server.turns import Turns

UNKNOWN = -1

PARTITIONS_AT_ONCE: Final = 500
"""Then others have their turn: a request may name more partitions than are looked up in a second."""


class ListOffsetsHandler:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def handle(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        turns, results = Turns(PARTITIONS_AT_ONCE), []
        for wanted in request.partitions:
            results.append(self._answer(wanted))
            await turns.done()
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
            leader_epoch=_epoch_at(partition, Offset(offset), wanted.timestamp_ms),
        )


def _epoch_at(partition: Partition, offset: Offset, timestamp_ms: int) -> int:
    """Of the record there; at the end, and where there is none, that of the leader, who writes the next one."""
    is_end = timestamp_ms == LATEST_TIMESTAMP or not 0 <= offset < partition.log.log_end_offset
    epoch = UNKNOWN if is_end else partition.log.epoch_at(offset)
    return partition.leader_epoch if epoch == UNKNOWN else epoch


def _look_up(partition: Partition, timestamp_ms: int) -> tuple[int, int]:
    """Offset and timestamp, below the high watermark. Raises Refusal."""
    if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return partition.log.log_start_offset, UNKNOWN
    if timestamp_ms in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        # Nothing is tiered.
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
