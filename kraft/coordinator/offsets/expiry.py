"""Expiry of committed offsets, by `offsets.retention.minutes` or by a retention time of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from kraft.coordinator.offsets.committed_offset import CommittedOffset
from kraft.coordinator.offsets.committed_offsets import CommittedOffsets
from kraft.coordinator.offsets.group_facts import GroupFacts
from kraft.coordinator.offsets.tombstones import Tombstones, tombstones_that_fit


class Expired(Struct, frozen=True, kw_only=True):
    """Offsets that expire in one group."""

    tombstones: Tombstones
    group_removable: bool
    """After the tombstones the group has no offsets, and it has no members: its own records may be deleted, too.

    While it has offsets of open transactions it is kept.
    """


def expired(
    offsets: CommittedOffsets, groups: Iterable[tuple[str, GroupFacts]], *, now_ms: int, retention_ms: int
) -> Iterator[Expired]:
    """Yield what expires in these groups, one result for each: a group without offsets may be removable, too.

    A result is decided when it is read. One that is read after other changes would be decided on an old state; a caller
    that decides something else in between gives a few groups at a time, each time with the current offsets and facts. A
    group with more than fits into one batch comes again.

    The tombstones of different groups need not be appended together.
    """
    for group, facts in groups:
        tombstones = tombstones_that_fit(group, _expired_partitions(offsets, group, facts, now_ms, retention_ms))
        yield Expired(
            tombstones=tombstones,
            group_removable=facts.empty
            and group not in offsets.pending.groups
            and len(tombstones.records) == offsets.count(group),
        )


def _expired_partitions(
    offsets: CommittedOffsets, group: str, facts: GroupFacts, now_ms: int, retention_ms: int
) -> Iterator[tuple[str, int]]:
    if not facts.offsets_expire:
        return
    for topic, partition, committed in offsets.partitions(group):
        if facts.is_subscribed_to(topic) or not _is_expired(committed, facts, now_ms, retention_ms):
            continue
        # The tombstone would delete what a transaction is about to commit.
        if not offsets.pending.of(group, topic, partition):
            yield topic, partition


def _is_expired(committed: CommittedOffset, facts: GroupFacts, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_timestamp_ms is not None:
        return now_ms >= committed.expire_timestamp_ms
    since_ms = committed.commit_timestamp_ms
    if facts.empty_since_ms is not None:
        # Unlike in Kafka, an offset that was reset while the group is empty counts from its reset.
        since_ms = max(since_ms, facts.empty_since_ms)
    return now_ms - since_ms >= retention_ms
