"""OffsetFetch: the committed offsets of one group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft.coordinator.offsets.committed_offset import CommittedOffset
from kraft.coordinator.offsets.committed_offsets import CommittedOffsets
from kraft.model.errors import ErrorCode
from kraft.wire.declaration import ZERO_UUID, Uuid, replace
from kraft.wire.schema.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET: Final = -1
"""In a response: the group has not committed an offset of the partition."""


def fetch(
    offsets: CommittedOffsets, group: str, topics: Sequence[OffsetFetchRequestTopics], *, require_stable: bool = False
) -> tuple[OffsetFetchResponseTopics, ...]:
    """Return the group's offsets of these partitions in the order of the request.

    An offset of another topic id than the one asked for is that of a deleted topic with the same name, so it counts as
    missing. If one of the ids is not known, only the name counts. `offsets` are the committed ones, without decisions
    whose records are not committed yet. With `require_stable`, a partition with offsets of open transactions is refused
    with UNSTABLE_OFFSET_COMMIT.
    """
    return tuple(_fetched_topic(offsets, group, topic, require_stable) for topic in topics)


def _fetched_topic(
    offsets: CommittedOffsets, group: str, topic: OffsetFetchRequestTopics, require_stable: bool
) -> OffsetFetchResponseTopics:
    known = offsets.of_topic(group, topic.name)
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            [
                _unstable(partition)
                if require_stable and offsets.pending.of(group, topic.name, partition)
                else _fetched(partition, known.get(partition), topic.topic_id)
                for partition in topic.partition_indexes
            ]
        ),
    )


def fetch_stable(
    committed: CommittedOffsets, latest: CommittedOffsets, group: str, topics: Sequence[OffsetFetchRequestTopics]
) -> tuple[OffsetFetchResponseTopics, ...]:
    """Return the committed offsets, and UNSTABLE_OFFSET_COMMIT where another one is about to be committed, or may be.

    A member that takes a partition over then waits for the last commit of the member that had it before. `latest` are
    the offsets with everything that is decided. An offset that is pending in the committed ones counts, too: what is
    decided may commit and then delete it, and only the first of the two may come to pass.
    """
    known = fetch(committed, group, topics, require_stable=True)
    newest = fetch(latest, group, topics, require_stable=True)
    return tuple(map(_stable, known, newest))


def _stable(committed: OffsetFetchResponseTopics, latest: OffsetFetchResponseTopics) -> OffsetFetchResponseTopics:
    return replace(
        committed,
        partitions=tuple(
            each if each == newest else _unstable(each.partition_index)
            for each, newest in zip(committed.partitions, latest.partitions, strict=True)
        ),
    )


def _unstable(partition: int) -> OffsetFetchResponsePartitions:
    return without_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def without_offset(partition: int, error_code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition, committed_offset=NO_OFFSET, metadata="", error_code=error_code
    )


def _fetched(partition: int, committed: CommittedOffset | None, topic_id: Uuid) -> OffsetFetchResponsePartitions:
    if committed is None or _is_of_another_topic(committed, topic_id):
        return without_offset(partition)
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=ErrorCode.NONE,
    )


def _is_of_another_topic(committed: CommittedOffset, topic_id: Uuid) -> bool:
    return committed.topic_id is not None and topic_id not in (ZERO_UUID, committed.topic_id)
