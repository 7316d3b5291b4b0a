"""Commands that commit and delete offsets, as handlers give them to the coordinator of a group."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kraft.coordinator.groups.commands import CommitOffsets, CommitTransactionOffsets
from kraft.coordinator.offsets.found_topic import FoundTopic
from kraft.model.ids import TopicId
from kraft.wire.declaration import ZERO_UUID
from kraft.wire.schema.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from kraft.wire.schema.offset_delete import OffsetDeleteRequestPartition
from kraft.wire.schema.offset_fetch import OffsetFetchRequestTopics
from kraft.wire.schema.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition


def offset(
    partition: int = 0, number: int = 0, *, leader_epoch: int = -1, metadata: str | None = None
) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=number,
        committed_leader_epoch=leader_epoch,
        committed_metadata=metadata,
    )


def offsets(
    name: str, *partitions: OffsetCommitRequestPartition, topic_id: TopicId | None = None
) -> FoundTopic[OffsetCommitRequestPartition]:
    return FoundTopic(name=name, topic_id=topic_id, partitions=partitions)


def committing(
    group_id: str,
    *topics: FoundTopic[OffsetCommitRequestPartition],
    generation: int = -1,
    member_id: str = "",
    api_version: int = 10,
    **fields: Any,
) -> CommitOffsets:
    request = OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=generation, member_id=member_id, topics=(), **fields
    )
    return CommitOffsets(request=request, topics=topics, api_version=api_version)


def in_transaction(
    group_id: str, topic: str, *partitions: TxnOffsetCommitRequestPartition, **fields: Any
) -> CommitTransactionOffsets:
    """Commit offsets of one topic; `fields` are those of the request."""
    request = TxnOffsetCommitRequest(group_id=group_id, topics=(), **fields)
    return CommitTransactionOffsets(request=request, topics=(FoundTopic(name=topic, partitions=partitions),))


def offset_in_transaction(partition: int, number: int, metadata: str | None) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=partition, committed_offset=number, committed_metadata=metadata
    )


def deletions(name: str, *partitions: int) -> FoundTopic[OffsetDeleteRequestPartition]:
    asked = tuple(OffsetDeleteRequestPartition(partition_index=each) for each in partitions)
    return FoundTopic(name=name, partitions=asked)


def asking(topic: str, *partitions: int, topic_id: UUID | None = None) -> OffsetFetchRequestTopics:
    """Return what an OffsetFetch says of a topic."""
    return OffsetFetchRequestTopics(name=topic, topic_id=topic_id or ZERO_UUID, partition_indexes=partitions)
