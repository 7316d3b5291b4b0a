"""OffsetCommit: records for the offsets that a member, or a client without a group, commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft.coordinator.group_record import GroupRecord
from kraft.coordinator.group_records import OffsetCommitKey, OffsetCommitValue
from kraft.coordinator.offsets.committed_offset import NO_EXPIRE_TIMESTAMP
from kraft.coordinator.offsets.decided_offsets import DecidedOffsets
from kraft.coordinator.offsets.found_topic import CommitPartition, CommitTopic
from kraft.model.errors import ErrorCode
from kraft.model.ids import TopicId
from kraft.wire.declaration import ZERO_UUID

NO_RETENTION_TIME: Final = -1

_TIMESTAMP_MAX: Final = 2**63 - 1
_METADATA_BYTES_MAX: Final = 2**15 - 1
"""Limit of version 1 of the record, and of responses before version 6 of OffsetFetch."""

_RECORD_BYTES_MIN: Final = 32
"""Fewer than the record of an offset takes beside its names and its metadata."""


def commit_bytes_min(group: str, topics: Sequence[CommitTopic]) -> int:
    """Return a lower bound of the bytes that the commit writes, without a look at each partition."""
    return sum(len(topic.partitions) * (_RECORD_BYTES_MIN + len(group) + len(topic.name)) for topic in topics)


def commit(
    group: str,
    topics: Sequence[CommitTopic],
    *,
    now_ms: int,
    metadata_length_max: int,
    retention_time_ms: int = NO_RETENTION_TIME,
) -> DecidedOffsets:
    """Commit the offsets whose metadata is not too long; it does not depend on what was committed before.

    `metadata_length_max` is `offset.metadata.max.bytes`: a longer text is refused with OFFSET_METADATA_TOO_LARGE, and
    the other partitions are committed. Kafka counts UTF-16 code units in spite of the name. `retention_time_ms` comes
    from requests before version 5; -1 leaves the expiry to `offsets.retention.minutes`.

    The group has checked the member and its generation or epoch for the whole request.
    """
    expire_timestamp_ms = NO_EXPIRE_TIMESTAMP
    if retention_time_ms != NO_RETENTION_TIME:
        # Kafka's sum overflows, and an offset that is to be kept for ever expires at once.
        expire_timestamp_ms = min(now_ms + retention_time_ms, _TIMESTAMP_MAX)
    records: list[GroupRecord] = []
    codes: list[ErrorCode] = []
    for topic in topics:
        for partition in topic.partitions:
            if _is_too_large(partition.committed_metadata or "", metadata_length_max):
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            codes.append(ErrorCode.NONE)
            key = OffsetCommitKey(group=group, topic=topic.name, partition=partition.partition_index)
            records.append(GroupRecord(key, _value(topic.topic_id, partition, now_ms, expire_timestamp_ms)))
    return DecidedOffsets(records=tuple(records), codes=tuple(codes))


def _value(
    topic_id: TopicId | None, partition: CommitPartition, now_ms: int, expire_timestamp_ms: int
) -> OffsetCommitValue:
    if expire_timestamp_ms != NO_EXPIRE_TIMESTAMP:
        # Only version 1 of the value has an expire timestamp, and it has neither leader epoch nor topic id. Nor have
        # the requests with a retention time.
        return OffsetCommitValue(
            offset=partition.committed_offset,
            metadata=partition.committed_metadata or "",
            commit_timestamp=now_ms,
            expire_timestamp=expire_timestamp_ms,
        )
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        topic_id=ZERO_UUID if topic_id is None else topic_id,
    )


def _is_too_large(metadata: str, length_max: int) -> bool:
    return len(metadata.encode("utf-16-le")) > 2 * length_max or len(metadata.encode()) > _METADATA_BYTES_MAX
