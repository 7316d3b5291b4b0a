"""Produce: appends record batches, and answers when as many replicas have them as the producer asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from uuid import UUID

from kraft.log.partition_log import AppendResult
from kraft.log.record_batch import Buffer
from kraft.model.errors import ErrorCode, InvalidRecords, Refusal
from kraft.model.ids import Offset
from kraft.model.requests import ProducePartition, ProducePartitionResult, ProduceRequest, ProduceResponse
from kraft.server.handlers.refused_sequences import RefusedSequences
from kraft.server.partition import Partition, ProduceOutcome
from kraft.server.partitions import Partitions

ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Appended:
    partition: Partition
    result: AppendResult
    outcome: ProduceOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A request whose records are appended. Not the records: many requests wait at a time."""

    request_id: int
    acks: int
    timeout_ms: int
    places: list[tuple[str, int]]
    """Topic and partition of each of `appended`."""

    appended: list[_Appended | Refusal]
    parked: list[asyncio.Future[ErrorCode]]
    """What waits for replicas."""


class ProduceHandler:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._awaited = RefusedSequences()

    def handle(self, request: ProduceRequest) -> Awaitable[ProduceResponse | None]:
        """Has appended when it returns; the awaitable's answer comes when the replicas have the records.

        The answer is None for acks=0; awaiting it raises the Refusal of what could not be appended.
        """
        return self._settled(self._append_all(request))

    def begin(self, request: ProduceRequest) -> Awaitable[ProduceResponse | None] | ProduceResponse | None:
        """As `handle`, and the answer itself, or the Refusal, when nothing has to be waited for."""
        begun = self._append_all(request)
        return self._settled(begun) if begun.parked else self._answer(begun)

    def refuse_unknown(self, topic_id: UUID, partition: int, records: Buffer) -> None:
        """These records are refused because no topic has that id yet; what was sent behind them is refused as well."""
        self._awaited.note((str(topic_id), partition), records, ErrorCode.UNKNOWN_TOPIC_ID, _now_s())

    def _append_all(self, request: ProduceRequest) -> _Begun:
        appended = [self._append(partition, request.acks) for partition in request.partitions]
        return _Begun(
            request_id=request.request_id,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
            places=[(partition.topic, partition.partition) for partition in request.partitions],
            appended=appended,
            parked=[
                one.outcome
                for one in appended
                if isinstance(one, _Appended) and isinstance(one.outcome, asyncio.Future)
            ],
        )

    def _append(self, wanted: ProducePartition, acks: int) -> _Appended | Refusal:
        try:
            if acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
                raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}: it is 0, 1 or -1 (all)")
            partition = self._partitions.by_name(wanted.topic, wanted.partition)
            if self._awaited:
                self._awaited.check(partition, wanted.records, _now_s())
            result = partition.append(wanted.records, acks)
        except Refusal as refusal:
            place = wanted.topic, wanted.partition
            self._awaited.note(place, wanted.records, refusal.error_code, _now_s())
            return refusal
        required = Offset(result.last_offset + 1)
        outcome = partition.park_produce(required) if acks == ACKS_ALL else ErrorCode.NONE
        return _Appended(partition=partition, result=result, outcome=outcome)

    async def _settled(self, begun: _Begun) -> ProduceResponse | None:
        try:
            if begun.parked:
                await asyncio.wait(begun.parked, timeout=begun.timeout_ms / 1_000)
            return self._answer(begun)
        finally:
            for outcome in begun.parked:
                outcome.cancel()

    def _answer(self, begun: _Begun) -> ProduceResponse | None:
        """What waits no longer, or too long. Raises the Refusal of an append with acks=0."""
        if begun.acks == ACKS_NONE:
            for one in begun.appended:
                if isinstance(one, Refusal):
                    raise one
            return None
        results = [self._result(*place, one) for place, one in zip(begun.places, begun.appended, strict=True)]
        return ProduceResponse(request_id=begun.request_id, partitions=results)

    def _result(self, topic: str, partition: int, one: _Appended | Refusal) -> ProducePartitionResult:
        match one:
            case InvalidRecords():
                refused = self._refused(topic, partition, one.error_code, one.message)
                return replace(refused, record_errors=one.record_errors)
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


def _now_s() -> float:
    return asyncio.get_running_loop().time()
