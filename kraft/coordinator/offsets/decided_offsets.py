"""Result of a request that changes committed offsets: records, and an error code for each partition."""

from __future__ import annotations

from msgspec import Struct

from kraft.coordinator.group_record import GroupRecord
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId


class PartitionResult(Struct, frozen=True):
    """Error code of one partition; NONE for success."""

    partition: int
    error_code: ErrorCode


class TopicResult(Struct, frozen=True, kw_only=True):
    """Results of the partitions of one topic, in the order of the request."""

    name: str
    topic_id: TopicId | None = None
    partitions: tuple[PartitionResult, ...]


class DecidedOffsets(Struct, frozen=True, kw_only=True):
    """Records to append together, and the results to send once they are committed."""

    records: tuple[GroupRecord, ...]
    topics: tuple[TopicResult, ...]
    """In the order of the request."""
