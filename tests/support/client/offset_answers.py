"""Answers to requests that commit and delete offsets, as brokers of the fake cluster give them."""

from __future__ import annotations

from collections.abc import Mapping

from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicPartition
from kraft.wire.schema.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kraft.wire.schema.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

Refused = Mapping[TopicPartition, ErrorCode]


def commit_response(request: OffsetCommitRequest, refused: Refused) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=_code(refused, topic.name, each.partition_index),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def deletion_response(request: OffsetDeleteRequest, refused: Refused) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index,
                        error_code=_code(refused, topic.name, each.partition_index),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _code(refused: Refused, topic: str, partition: int) -> ErrorCode:
    return refused.get(TopicPartition(topic, partition), ErrorCode.NONE)
