"""OffsetForLeaderEpoch: where a leader epoch ends, so that a consumer notices that its log was cut (KIP-320)."""

from __future__ import annotations

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import LeaderEpoch
from kraft.model.requests import (
    EpochEndPartition,
    EpochEndPartitionResult,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kraft.server.partitions import Partitions


class OffsetForLeaderEpochHandler:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def handle(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(partitions=[self._answer(wanted) for wanted in request.partitions])

    def _answer(self, wanted: EpochEndPartition) -> EpochEndPartitionResult:
        try:
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            partition.as_leader(wanted.current_leader_epoch)
        except Refusal as refusal:
            return EpochEndPartitionResult(
                topic=wanted.topic, partition=wanted.partition, error_code=refusal.error_code
            )
        epoch, end_offset = partition.log.end_offset_for_epoch(LeaderEpoch(wanted.leader_epoch))
        return EpochEndPartitionResult(
            topic=wanted.topic,
            partition=wanted.partition,
            error_code=ErrorCode.NONE,
            leader_epoch=epoch,
            end_offset=end_offset,
        )
