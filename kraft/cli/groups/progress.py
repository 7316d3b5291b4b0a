"""Progress of groups: for each partition the committed offset, the records that are not read yet, and the reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kraft.cli.groups.unread_records import first_timestamps
from kraft.client import (
    Admin,
    GroupDescription,
    GroupMember,
    KraftError,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from kraft.model.list_offsets import LATEST_TIMESTAMP


class PartitionProgress(Struct, frozen=True, kw_only=True):
    """Progress of a group in one partition. Fields are None if they are not known."""

    group_id: str
    partition: TopicPartition
    committed: OffsetAndMetadata | None
    log_end: int | None
    """The high watermark, which Kafka's tools print as LOG-END-OFFSET."""

    unread_since_ms: int | None = None
    """Timestamp of the first record that was not read."""

    member: GroupMember | None
    """The member that reads the partition."""

    @property
    def lag(self) -> int | None:
        """Offsets between the committed one and `log_end`; negative if the log was truncated or created again."""
        return None if self.committed is None or self.log_end is None else self.log_end - self.committed.offset

    def lag_seconds(self, now_ms: int) -> float | None:
        """Age of the first record that was not read; 0 if all were read."""
        if self.lag is None:
            return None
        if self.lag <= 0:
            return 0.0
        return None if self.unread_since_ms is None else max(0, now_ms - self.unread_since_ms) / 1_000


def progress_of(
    group: GroupDescription,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    log_ends: Mapping[TopicPartition, int],
    unread_since_ms: Mapping[tuple[TopicPartition, int], int],
) -> list[PartitionProgress]:
    """Return the partitions that the group reads or has committed offsets of, sorted.

    `unread_since_ms` has the timestamps of the first unread records, by partition and committed offset.
    """
    readers = {partition: member for member in group.members for partition in member.assignment}
    return [
        PartitionProgress(
            group_id=group.group_id,
            partition=partition,
            committed=(offset := committed.get(partition)),
            log_end=log_ends.get(partition),
            unread_since_ms=None if offset is None else unread_since_ms.get((partition, offset.offset)),
            member=readers.get(partition),
        )
        for partition in sorted({*readers, *committed})
    ]


def read_progress(
    admin: Admin, bootstrap_server: str, groups: Sequence[GroupDescription], timeout_ms: int
) -> dict[str, list[PartitionProgress]]:
    """Return the progress of each group, by its id. What cannot be found out of a partition is None."""
    committed = _committed(admin, [each.group_id for each in groups])
    read = {partition for each in groups for member in each.members for partition in member.assignment}
    # A partition without a leader would delay all others until the timeout.
    led = {
        TopicPartition(name, each.partition_index)
        for name, topic in admin.find_topics().items()
        for each in topic.partitions
        if each.leader_id >= 0
    }
    log_ends = _log_ends(admin, led & read.union(*committed.values()))
    unread = [
        (partition, range(each.offset, log_ends[partition]))
        for offsets in committed.values()
        for partition, each in offsets.items()
        if partition in log_ends
    ]
    since_ms = first_timestamps(bootstrap_server, unread, timeout_ms)
    return {each.group_id: progress_of(each, committed[each.group_id], log_ends, since_ms) for each in groups}


def _committed(admin: Admin, group_ids: Sequence[str]) -> dict[str, Mapping[TopicPartition, OffsetAndMetadata]]:
    outcomes = admin.list_offsets_of_many_groups(group_ids)
    return {
        # The coordinator of a group without an answer may have moved meanwhile.
        group_id: admin.list_consumer_group_offsets(group_id) if isinstance(outcome, KraftError) else outcome
        for group_id, outcome in outcomes.items()
    }


def _log_ends(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the log end offsets of the partitions for which there is one."""
    asked = dict.fromkeys(partitions, LATEST_TIMESTAMP)
    outcomes = admin.list_offsets(asked) if asked else {}
    return {each: found.offset for each, found in outcomes.items() if isinstance(found, OffsetAndTimestamp)}
