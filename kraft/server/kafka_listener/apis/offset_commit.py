"""OffsetCommit: store the offsets of a group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from kraft.coordinator.groups.commands import CommitOffsets
from kraft.model.committed_offsets import CommitPartition, CommitTopic, OffsetResults, PartitionResult, TopicResult
from kraft.model.errors import Refusal
from kraft.model.ids import LeaderEpoch, Offset, TopicId
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraft.wire.schema.txn_offset_commit import TxnOffsetCommitRequestPartition

_TOPIC_IDS_FROM: Final = 10
"""First version that gives topics by id instead of by name."""

_NO_RETENTION_TIME: Final = -1


class OffsetCommitApi:
    def __init__(self, handle: Callable[[CommitOffsets], Awaitable[OffsetResults]]) -> None:
        self._handle = handle

    async def __call__(self, request: OffsetCommitRequest, call: RequestContext) -> OffsetCommitResponse:
        command = _command(request, call.version)
        try:
            results = (await self._handle(command)).topics
        except Refusal as refusal:
            # The response has no error code of its own.
            results = tuple(
                TopicResult(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=tuple(PartitionResult(each.partition, refusal.error_code) for each in topic.partitions),
                )
                for topic in command.topics
            )
        return OffsetCommitResponse(
            topics=tuple(
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id or ZERO_UUID,
                    partitions=tuple(
                        OffsetCommitResponsePartition(partition_index=each.partition, error_code=each.error_code)
                        for each in topic.partitions
                    ),
                )
                for topic in results
            )
        )


def _command(request: OffsetCommitRequest, version: int) -> CommitOffsets:
    retention_ms = request.retention_time_ms
    return CommitOffsets(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        retention_time_ms=None if retention_ms == _NO_RETENTION_TIME else retention_ms,
        api_version=version,
        topics=tuple(
            CommitTopic(
                name=topic.name,
                topic_id=TopicId(topic.topic_id) if version >= _TOPIC_IDS_FROM else None,
                partitions=committed_partitions(topic.partitions),
            )
            for topic in request.topics
        ),
    )


def committed_partitions(
    partitions: Sequence[OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition],
) -> tuple[CommitPartition, ...]:
    """Return the offsets of one topic in a request, with a transaction or without."""
    return tuple(
        CommitPartition(
            partition=each.partition_index,
            offset=Offset(each.committed_offset),
            leader_epoch=LeaderEpoch(each.committed_leader_epoch),
            metadata=each.committed_metadata,
        )
        for each in partitions
    )
