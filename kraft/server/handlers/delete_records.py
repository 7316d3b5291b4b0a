"""DeleteRecords: advance the log start offset of partitions, and answer when every in-sync replica has followed.

Source: KIP-107.
"""

from __future__ import annotations

from typing import Final

from kraft.metadata.topic_names import check_not_internal
from kraft.model.callbacks import Callback
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.server.loop.periods import loop_time_s
from kraft.server.loop.purgatory import Watch
from kraft.server.loop.turns import Turns
from kraft.server.replica.log_changes import ChangeOutcome
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions
from kraft.wire.schema.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

PARTITIONS_AT_ONCE: Final = 200
"""Partitions whose deletion begins, or is answered, before other tasks have their turn."""

UNKNOWN_LOW_WATERMARK: Final = -1


class DeleteRecordsHandler:
    def __init__(self, partitions: Partitions, records_deleted: Callback) -> None:
        """`records_deleted` is called after a deletion, so that whole segments can be removed at once."""
        self._partitions = partitions
        self._records_deleted = records_deleted

    async def handle(self, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        """Delete the records from the leader, then wait until all replicas have followed or the request times out."""
        deadline = loop_time_s() + request.timeout_ms / 1_000
        turns, begun = Turns(PARTITIONS_AT_ONCE), list[_Deletion | Refusal]()
        for topic in request.topics:
            for wanted in topic.partitions:
                begun.append(one := self._begin(topic.name, wanted))
                if isinstance(one, _Deletion):
                    one.outcome.when_done(self._records_deleted)
                    one.outcome.when_done(one.partition.low_watermark_moved.notify)
                await turns.done()
        with Watch([one.partition.low_watermark_moved for one in begun if isinstance(one, _Deletion)]) as watch:
            while True:
                watch.again()
                if not any(isinstance(one, _Deletion) and one.is_waiting() for one in begun):
                    break
                if not await watch.wait(deadline - loop_time_s()):
                    break
        outcomes, topics = iter(begun), []
        for topic in request.topics:
            results = []
            for wanted in topic.partitions:
                results.append(_result(wanted, next(outcomes)))
                await turns.done()
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=tuple(results)))
        return DeleteRecordsResponse(topics=tuple(topics))

    def _begin(self, topic: str, wanted: DeleteRecordsPartition) -> _Deletion | Refusal:
        try:
            partition = self._partitions.by_name(topic, wanted.partition_index)
            check_not_internal(topic)
            return _Deletion(partition, *partition.delete_records(wanted.offset))
        except Refusal as refusal:
            return refusal


class _Deletion:
    """Deletion of the records below `before_offset` of one partition, in one leader epoch."""

    def __init__(self, partition: Partition, before_offset: Offset, outcome: ChangeOutcome[None]) -> None:
        self.partition = partition
        self.outcome = outcome
        self._before_offset = before_offset
        self._leader_epoch = partition.leader_epoch

    def is_waiting(self) -> bool:
        try:
            if self.outcome.is_done:
                self.outcome.result()
            return self.low_watermark() < self._before_offset
        except Refusal:
            return False

    def settled_low_watermark(self) -> Offset:
        """Return the low watermark when the wait is over.

        Raises Refusal: REQUEST_TIMED_OUT if some replica has not followed, NOT_LEADER_OR_FOLLOWER and others.
        """
        if self.outcome.is_done:
            self.outcome.result()
        reached = self.low_watermark()
        if reached < self._before_offset:
            raise Refusal(
                ErrorCode.REQUEST_TIMED_OUT,
                f"timed out before every in-sync replica of {self.partition.topic_partition} deleted its records; "
                "the remaining replicas will still delete them",
            )
        return reached

    def low_watermark(self) -> Offset:
        if self.partition.leader_epoch != self._leader_epoch:
            # The request names no leader epoch, so the client must look up the leader again.
            moved = f"leader of {self.partition.topic_partition} changed meanwhile: retry"
            raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, moved)
        return self.partition.as_leader().low_watermark


def _result(wanted: DeleteRecordsPartition, begun: _Deletion | Refusal) -> DeleteRecordsPartitionResult:
    try:
        if isinstance(begun, Refusal):
            raise begun
        low_watermark = begun.settled_low_watermark()
    except Refusal as refusal:
        return DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, error_code=refusal.error_code, low_watermark=UNKNOWN_LOW_WATERMARK
        )
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, error_code=ErrorCode.NONE, low_watermark=low_watermark
    )
