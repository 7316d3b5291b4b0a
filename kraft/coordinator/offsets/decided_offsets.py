"""Result of a request that changes committed offsets: records, and an error code for each partition."""

from __future__ import annotations

from msgspec import Struct

from kraft.coordinator.group_record import GroupRecord
from kraft.model.committed_offsets import PartitionResult, TopicResult

__all__ = ["DecidedOffsets", "PartitionResult", "TopicResult"]


class DecidedOffsets(Struct, frozen=True, kw_only=True):
    """Records to append together, and the results to send once they are committed."""

    records: tuple[GroupRecord, ...]
    topics: tuple[TopicResult, ...]
    """In the order of the request."""
