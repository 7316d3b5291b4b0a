"""OffsetForLeaderEpoch: the end offset of a leader epoch, by which a consumer detects a truncation (KIP-320)."""

from __future__ import annotations

from typing import Final

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from kraft.server.loop.turns import Turns
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.wire.schema.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

PARTITIONS_AT_ONCE: Final = 500
"""Partitions looked up before other tasks have their turn: a request may name very many."""


class OffsetForLeaderEpochHandler:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def handle(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        """Return one result per partition, in the request's order."""
        turns, topics = Turns(PARTITIONS_AT_ONCE), []
        for topic in request.topics:
            ends = []
            for wanted in topic.partitions:
                ends.append(self._answer(topic.topic, wanted))
                await turns.done()
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(ends)))
        return OffsetForLeaderEpochResponse(topics=tuple(topics))

    def _answer(self, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            partition = self._partitions.by_name(topic, wanted.partition)
            partition.as_leader(wanted.current_leader_epoch)
        except Refusal as refusal:
            return EpochEndOffset(partition=wanted.partition, error_code=refusal.error_code)
        epoch, end_offset = _end_of(partition, LeaderEpoch(wanted.leader_epoch))
        return EpochEndOffset(
            partition=wanted.partition, error_code=ErrorCode.NONE, leader_epoch=epoch, end_offset=end_offset
        )


def _end_of(partition: Partition, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
    """Return the largest epoch up to `epoch` in this leader's log, and its end; -1 for one after the leader's own.

    The log stores an epoch with its first record. Consumers also know epochs without records: a position that was
    looked up has the epoch of its leader. Such an epoch ends at the log end offset.
    """
    log = partition.log
    if not log.latest_epoch < epoch <= partition.leader_epoch:
        return log.end_offset_for_epoch(epoch)
    found = epoch if log.latest_epoch == NO_LEADER_EPOCH or epoch == partition.leader_epoch else log.latest_epoch
    return found, log.log_end_offset
