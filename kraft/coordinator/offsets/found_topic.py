"""A topic of a request for committed offsets, found in the metadata."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from kraft.model.ids import TopicId
from kraft.wire.schema.offset_commit import OffsetCommitRequestPartition
from kraft.wire.schema.offset_delete import OffsetDeleteRequestPartition
from kraft.wire.schema.txn_offset_commit import TxnOffsetCommitRequestPartition

CommitPartition: TypeAlias = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition

Partition = TypeVar("Partition", bound=CommitPartition | OffsetDeleteRequestPartition)


class FoundTopic(Struct, Generic[Partition], frozen=True, kw_only=True):
    """A topic with those of its partitions in the request that exist."""

    name: str
    topic_id: TopicId | None = None
    """Stored with each offset."""

    partitions: Sequence[Partition]
    """As the client sent them."""


CommitTopic: TypeAlias = FoundTopic[OffsetCommitRequestPartition] | FoundTopic[TxnOffsetCommitRequestPartition]
