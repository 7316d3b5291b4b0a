"""TxnOffsetCommit: store the offsets of a group with a producer's transaction (KIP-98)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from kraft.coordinator.groups.commands import CommitTransactionOffsets
from kraft.model.committed_offsets import CommitTopic, OffsetResults, PartitionResult, TopicResult
from kraft.model.errors import ErrorCode, Refusal
from kraft.server.kafka_listener.apis.offset_commit import committed_partitions
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.schema.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_LOADING_FROM: Final = 2
"""Clients of earlier versions may crash at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""

_ABORTABLE_FROM: Final = 4
"""First version that has TRANSACTION_ABORTABLE."""

_ADDS_FROM: Final = 5
"""First version in which the broker adds the group's partition to the transaction."""


class TxnOffsetCommitApi:
    def __init__(self, handle: Callable[[CommitTransactionOffsets], Awaitable[OffsetResults]]) -> None:
        self._handle = handle

    async def __call__(self, request: TxnOffsetCommitRequest, call: RequestContext) -> TxnOffsetCommitResponse:
        command = _command(request, call.version)
        try:
            results = (await self._handle(command)).topics
        except Refusal as refusal:
            # The response has no error code of its own.
            code = _code(refusal.error_code, call.version)
            results = tuple(
                TopicResult(
                    name=topic.name,
                    partitions=tuple(PartitionResult(each.partition, code) for each in topic.partitions),
                )
                for topic in command.topics
            )
        return TxnOffsetCommitResponse(
            topics=tuple(
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        TxnOffsetCommitResponsePartition(partition_index=each.partition, error_code=each.error_code)
                        for each in topic.partitions
                    ),
                )
                for topic in results
            )
        )


def _code(code: ErrorCode, version: int) -> ErrorCode:
    """Return the error code that a client of this version understands."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return code


def _command(request: TxnOffsetCommitRequest, version: int) -> CommitTransactionOffsets:
    return CommitTransactionOffsets(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id,
        adds_partition=version >= _ADDS_FROM,
        topics=tuple(
            CommitTopic(name=topic.name, partitions=committed_partitions(topic.partitions)) for topic in request.topics
        ),
    )
