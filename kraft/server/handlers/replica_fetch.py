"""ReplicaFetch: return the leader's records to followers, as soon as there is anything new for them."""

from __future__ import annotations

import asyncio

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import BrokerEpoch, BrokerId, Offset
from kraft.model.replica_fetch import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)
from kraft.replication.divergence import DivergingEpoch, check_follower_fetch
from kraft.rpc.call import Served
from kraft.rpc.cluster_calls import REPLICA_FETCH
from kraft.server.loop.purgatory import Notifier, Watch
from kraft.server.replica.partition import Partition
from kraft.server.replica.partitions import Partitions


class ReplicaFetchHandler:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def handle(self, request: ReplicaFetchRequest) -> ReplicaFetchResponse:
        """Answer when there are records, a new high watermark or other news, or when the wait times out."""
        deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1_000
        # The follower's progress is counted once, and the log is read again after each wait.
        checked = [(wanted, self._count_progress(request, wanted)) for wanted in request.partitions]
        with Watch(self._watched(request)) as watch:
            while True:
                watch.again()
                found = self._read_all(request.max_bytes, checked)
                if any(_is_news(wanted, result) for wanted, result in found):
                    break
                if not await watch.wait(deadline - asyncio.get_running_loop().time()):
                    break
        return ReplicaFetchResponse(partitions=[result for _, result in found])

    def _watched(self, request: ReplicaFetchRequest) -> list[Notifier]:
        found = (self._partitions.find(wanted.id) for wanted in request.partitions)
        return [
            notifier
            for partition in found
            if partition is not None
            for notifier in (partition.appended, partition.committed)
        ]

    def _count_progress(self, request: ReplicaFetchRequest, wanted: ReplicaFetchPartition) -> Refusal | None:
        """Count the follower's progress if its log agrees with the leader's. Returns the Refusal if there is one."""
        try:
            partition, diverging = self._compare(wanted)
            if diverging is None:
                partition.follower_fetched(
                    BrokerId(request.replica_id),
                    BrokerEpoch(request.broker_epoch),
                    Offset(wanted.fetch_offset),
                    Offset(wanted.log_start_offset),
                )
        except Refusal as refusal:
            return refusal
        return None

    def _compare(self, wanted: ReplicaFetchPartition) -> tuple[Partition, DivergingEpoch | None]:
        partition = self._partitions.by_id(wanted.id)
        leader = partition.as_leader(wanted.current_leader_epoch)
        return partition, check_follower_fetch(partition.log, leader.leader_epoch, wanted)

    def _read_all(
        self, bytes_max: int, checked: list[tuple[ReplicaFetchPartition, Refusal | None]]
    ) -> list[tuple[ReplicaFetchPartition, ReplicaFetchResult]]:
        left, nothing_yet, found = bytes_max, True, []
        for wanted, refusal in checked:
            # The first batch of a response is returned whatever its size, so that no follower gets stuck.
            result = self._refused(wanted, refusal) if refusal else self._read(wanted, left, nothing_yet)
            left = max(left - len(result.records), 0)
            nothing_yet = nothing_yet and not result.records
            found.append((wanted, result))
        return found

    def _read(self, wanted: ReplicaFetchPartition, bytes_left: int, at_least_one: bool) -> ReplicaFetchResult:
        try:
            partition, diverging = self._compare(wanted)
            records = b""
            if diverging is None:
                bytes_max = min(bytes_left, wanted.partition_max_bytes)
                records = partition.read(
                    Offset(wanted.fetch_offset), bytes_max, partition.log.log_end_offset, at_least_one
                )
        except Refusal as refusal:
            return self._refused(wanted, refusal)
        return ReplicaFetchResult(
            topic_id=wanted.topic_id,
            partition=wanted.partition,
            error_code=ErrorCode.NONE,
            leader_epoch=partition.leader_epoch,
            high_watermark=partition.high_watermark,
            log_start_offset=partition.log.log_start_offset,
            records=records,
            diverging_epoch=-1 if diverging is None else diverging.epoch,
            diverging_end_offset=-1 if diverging is None else diverging.end_offset,
        )

    def _refused(self, wanted: ReplicaFetchPartition, refusal: Refusal) -> ReplicaFetchResult:
        held = self._partitions.find(wanted.id)
        return ReplicaFetchResult(
            topic_id=wanted.topic_id,
            partition=wanted.partition,
            error_code=refusal.error_code,
            error_message=refusal.message,
            leader_epoch=-1 if held is None else held.leader_epoch,
            log_start_offset=-1 if held is None else held.log.log_start_offset,
        )

    def served(self) -> list[Served]:
        return [REPLICA_FETCH.served_by(self.handle)]


def _is_news(wanted: ReplicaFetchPartition, result: ReplicaFetchResult) -> bool:
    """Return whether the follower learns anything new; an advanced high watermark or log start counts (KIP-1166).

    A follower that fetched in range can always follow the log start, which is never above the high watermark.
    """
    return (
        result.error_code is not ErrorCode.NONE
        or bool(result.records)
        or result.diverging_epoch >= 0
        or result.high_watermark > wanted.high_watermark
        or result.log_start_offset > wanted.log_start_offset
    )
