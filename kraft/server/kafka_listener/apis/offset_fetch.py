"""OffsetFetch: the committed offsets of groups; of several at once since version 8 (KIP-709)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from kraft.model.committed_offsets import (
    FetchedGroup,
    FetchedPartition,
    FetchedTopic,
    FetchGroup,
    FetchTopic,
)
from kraft.model.committed_offsets import OffsetFetchRequest as Fetch
from kraft.model.committed_offsets import OffsetFetchResponse as Fetched
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId
from kraft.server.kafka_listener.requests import RequestContext
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

Partition = TypeVar("Partition", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)

_GROUP_ERROR_FROM: Final = 2
"""First version with an error code for the group as a whole."""

_SEVERAL_GROUPS_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10
"""First version that gives topics by id instead of by name."""


class OffsetFetchApi:
    def __init__(self, handle: Callable[[Fetch], Awaitable[Fetched]]) -> None:
        self._handle = handle

    async def __call__(self, request: OffsetFetchRequest, call: RequestContext) -> OffsetFetchResponse:
        several = call.version >= _SEVERAL_GROUPS_FROM
        by_id = call.version >= _TOPIC_IDS_FROM
        groups = tuple(_group(each, by_id) for each in request.groups) if several else (_only_group(request),)
        fetched = await self._handle(Fetch(groups=groups, require_stable=request.require_stable))
        if several:
            return OffsetFetchResponse(groups=tuple(_group_response(each, by_id) for each in fetched.groups))
        (only,) = fetched.groups
        topics = only.topics
        if only.error_code is not ErrorCode.NONE and call.version < _GROUP_ERROR_FROM:
            topics = _refused_topics(groups[0], only.error_code)
        return OffsetFetchResponse(
            error_code=only.error_code,
            topics=tuple(
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=tuple(_partition(OffsetFetchResponsePartition, each) for each in topic.partitions),
                )
                for topic in topics
            ),
        )


def _only_group(request: OffsetFetchRequest) -> FetchGroup:
    return FetchGroup(
        group_id=request.group_id,
        topics=tuple(FetchTopic(name=each.name, partitions=each.partition_indexes) for each in request.topics or ()),
        all_topics=request.topics is None,
    )


def _group(group: OffsetFetchRequestGroup, by_id: bool) -> FetchGroup:
    return FetchGroup(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=tuple(
            FetchTopic(
                name=each.name, topic_id=TopicId(each.topic_id) if by_id else None, partitions=each.partition_indexes
            )
            for each in group.topics or ()
        ),
        all_topics=group.topics is None,
    )


def _refused_topics(group: FetchGroup, error_code: ErrorCode) -> tuple[FetchedTopic, ...]:
    return tuple(
        FetchedTopic(
            name=topic.name,
            partitions=tuple(FetchedPartition(partition=each, error_code=error_code) for each in topic.partitions),
        )
        for topic in group.topics
    )


def _group_response(group: FetchedGroup, by_id: bool) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        error_code=group.error_code,
        topics=tuple(
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id or ZERO_UUID,
                partitions=tuple(_partition(OffsetFetchResponsePartitions, each) for each in topic.partitions),
            )
            for topic in group.topics
            # A deleted topic, of which the group still has offsets, has no id.
            if topic.topic_id is not None or not by_id
        ),
    )


def _partition(kind: type[Partition], partition: FetchedPartition) -> Partition:
    return kind(
        partition_index=partition.partition,
        committed_offset=partition.offset,
        committed_leader_epoch=partition.leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )
