"""Produce: appends record batches, and answers when as many replicas have them as the producer asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace

from kraft.log.partition_log import AppendResult
from kraft.model.errors import ErrorCode, Refusal
from kraft.model.ids import Offset
from kraft.model.requests import ProducePartition, ProducePartitionResult, ProduceRequest, ProduceResponse
from kraft.server.partition import Partition, ProduceOutcome
from kraft.server.partitions import Partitions

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Appended:
    partition: Partition
    result: AppendResult
    outcome: ProduceOutcome


class ProduceHandler:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    def handle(self, request: ProduceRequest) -> Awaitable[ProduceResponse | None]:
        """Has appended when it returns; the awaitable's answer comes when the replicas have the records.

        The answer is None for acks=0; awaiting it raises the Refusal of what could not be appended.
        """
        appended = [self._append(partition, request.acks) for partition in request.partitions]
        # Without the records: many requests wait here at a time.
        places = [(partition.topic, partition.partition) for partition in request.partitions]
        return self._answer(replace(request, partitions=[]), places, appended)

    def _append(self, wanted: ProducePartition, acks: int) -> _Appended | Refusal:
        try:
            if acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
                raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}: it is 0, 1 or -1 (all)")
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            result = partition.append(wanted.records, acks)
        except Refusal as refusal:
            return refusal
        required = Offset(result.last_offset + 1)
        outcome = partition.park_produce(required) if acks == ACKS_ALL else ErrorCode.NONE
        return _Appended(partition=partition, result=result, outcome=outcome)

    async def _answer(
        self, request: ProduceRequest, places: list[tuple[str, int]], appended: list[_Appended | Refusal]
    ) -> ProduceResponse | None:
        if request.acks == ACKS_NONE:
            for one in appended:
                if isinstance(one, Refusal):
                    raise one
            return None
        parked = [
            one.outcome for one in appended if isinstance(one, _Appended) and isinstance(one.outcome, asyncio.Future)
        ]
        try:
            if parked:
                await asyncio.wait(parked, timeout=request.timeout_ms / 1_000)
            results = [self._result(*place, one) for place, one in zip(places, appended, strict=True)]
        finally:
            for outcome in parked:
                outcome.cancel()
        return ProduceResponse(request_id=request.request_id, partitions=results)

    def _result(self, topic: str, partition: int, one: _Appended | Refusal) -> ProducePartitionResult:
        match one:
            case Refusal():
                return self._refused(topic, partition, one.error_code, one.message)
            case _Appended():
                code = _settled(one.outcome)
                if code is not ErrorCode.NONE:
                    return self._refused(topic, partition, code, "")
                return ProducePartitionResult(
                    topic=topic,
                    partition=partition,
                    error_code=ErrorCode.NONE,
                    base_offset=one.result.base_offset,
                    log_append_time_ms=one.result.log_append_time_ms,
                    log_start_offset=one.partition.log.log_start_offset,
                    leader_id=one.partition.leader_id,
                    leader_epoch=one.partition.leader_epoch,
                )

    def _refused(self, topic: str, partition: int, code: ErrorCode, message: str) -> ProducePartitionResult:
        leader_id, leader_epoch = self._partitions.leader_hint(topic, partition)
        return ProducePartitionResult(
            topic=topic,
            partition=partition,
            error_code=code,
            error_message=message,
            leader_id=leader_id,
            leader_epoch=leader_epoch,
        )


def _settled(outcome: ProduceOutcome) -> ErrorCode:
    """How it ended; a wait that is not over by now has timed out, and the records may be committed later."""
    if isinstance(outcome, ErrorCode):
        return outcome
    return outcome.result() if outcome.done() else ErrorCode.REQUEST_TIMED_OUT
