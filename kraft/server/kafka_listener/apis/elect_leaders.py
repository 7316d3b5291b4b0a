"""ElectLeaders: elect preferred leaders, or since version 1 unclean ones too (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from kraft.model import partitions as values
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.timeouts import forward_timeout_ms
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

Handle = Callable[[values.ElectLeadersRequest], Awaitable[values.ElectLeadersResponse]]


class ElectLeadersApi:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def __call__(self, request: ElectLeadersRequest, call: RequestContext) -> ElectLeadersResponse:
        wanted = [
            values.PartitionName(topic=topic.topic, partition=partition)
            for topic in request.topic_partitions or ()
            for partition in topic.partitions
        ]
        try:
            answer = await self._handle(
                values.ElectLeadersRequest(
                    election_type=_election_type(request.election_type),
                    partitions=wanted,
                    all_partitions=request.topic_partitions is None,
                    timeout_ms=forward_timeout_ms(request.timeout_ms),
                )
            )
        except Refusal as refusal:
            return _refused(wanted, refusal.error_code, refusal.message)
        if answer.error_code is not ErrorCode.NONE:
            return _refused(wanted, answer.error_code, answer.error_message)
        return ElectLeadersResponse(error_code=ErrorCode.NONE, replica_election_results=_by_topic(answer.results))


def _election_type(number: int) -> values.ElectionType:
    try:
        return values.ElectionType(number)
    except ValueError:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"unknown election type {number}") from None


def _refused(wanted: Iterable[values.PartitionName], code: ErrorCode, message: str) -> ElectLeadersResponse:
    """Return one error for every partition: version 0 has no top-level error, and some later clients ignore it."""
    results = [
        values.PartitionResult(topic=each.topic, partition=each.partition, error_code=code, error_message=message)
        for each in wanted
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=_by_topic(results))


def _by_topic(results: Iterable[values.PartitionResult]) -> tuple[ReplicaElectionResult, ...]:
    topics: dict[str, list[PartitionResult]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(
            PartitionResult(
                partition_id=result.partition,
                error_code=result.error_code,
                error_message=result.error_message or None,
            )
        )
    return tuple(
        ReplicaElectionResult(topic=topic, partition_result=tuple(partitions)) for topic, partitions in topics.items()
    )
