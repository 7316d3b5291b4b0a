"""Fetch: committed record batches for consumers, at once when there are any, otherwise as soon as there are."""

from __future__ import annotations

import asyncio
from typing import Final

from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.model.requests import FetchPartition, FetchPartitionResult, FetchRequest, FetchResponse
from kraft.server.partitions import Partitions
from kraft.server.purgatory import Progress, Watch

RESPONSE_BYTES_MAX: Final = 55 * 1024 * 1024
"""However much a request asks for. Kafka's fetch.max.bytes at its default; one message of ours holds a little more."""

PARTITIONS_AT_ONCE: Final = 500
"""Then others have their turn: a request may name more partitions than are read in a second."""


class FetchHandler:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def handle(self, request: FetchRequest) -> FetchResponse:
        """Waits for `min_bytes`, unless some partition has an error to tell or the wait is over."""
        deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1_000
        wanted_bytes = min(request.min_bytes, request.max_bytes, RESPONSE_BYTES_MAX) if request.partitions else 0
        with Watch(self._watched(request)) as watch:
            while True:
                watch.again()
                results = await self._read_all(request)
                found_bytes = sum(len(result.records) for result in results)
                if found_bytes >= wanted_bytes or any(result.error_code is not ErrorCode.NONE for result in results):
                    break
                if not await watch.wait(deadline - asyncio.get_running_loop().time()):
                    break
        return FetchResponse(request_id=request.request_id, partitions=results)

    def _watched(self, request: FetchRequest) -> list[Progress]:
        found = (self._partitions.find_by_name(wanted.topic, wanted.partition) for wanted in request.partitions)
        return [partition.committed for partition in found if partition is not None]

    async def _read_all(self, request: FetchRequest) -> list[FetchPartitionResult]:
        left = min(request.max_bytes, RESPONSE_BYTES_MAX)
        # KIP-74: the first batch of an answer is given whatever its size, so that a consumer never gets stuck.
        nothing_yet = True
        results = []
        for number, wanted in enumerate(request.partitions, start=1):
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            result = self._read(wanted, min(left, wanted.partition_max_bytes), nothing_yet)
            left = max(left - len(result.records), 0)
            nothing_yet = nothing_yet and not result.records
            results.append(result)
        return results

    def _read(self, wanted: FetchPartition, bytes_max: int, at_least_one: bool) -> FetchPartitionResult:
        try:
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            partition.as_leader(wanted.current_leader_epoch)
            records = partition.read(Offset(wanted.fetch_offset), bytes_max, partition.high_watermark, at_least_one)
        except Refusal as refusal:
            return self._refused(wanted, refusal)
        return FetchPartitionResult(
            topic=wanted.topic,
            partition=wanted.partition,
            error_code=ErrorCode.NONE,
            high_watermark=partition.high_watermark,
            log_start_offset=partition.log.log_start_offset,
            records=records,
            leader_id=partition.leader_id,
            leader_epoch=partition.leader_epoch,
        )

    def _refused(self, wanted: FetchPartition, refusal: Refusal) -> FetchPartitionResult:
        leader_id, leader_epoch = self._partitions.leader_hint(wanted.topic, wanted.partition)
        held = self._partitions.find_by_name(wanted.topic, wanted.partition)
        return FetchPartitionResult(
            topic=wanted.topic,
            partition=wanted.partition,
            error_code=refusal.error_code,
            error_message=refusal.message,
            log_start_offset=-1 if held is None else held.log.log_start_offset,
            leader_id=leader_id,
            leader_epoch=leader_epoch,
        )
